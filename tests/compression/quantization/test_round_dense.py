import numpy as np
import pytest

from advisor.compression import round_dense
from advisor.compression._quantization.grid import Grid


def features(count: int = 200) -> np.ndarray:
    """Correlated features, of which the last hardly varies."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((count, 6)) @ random.standard_normal((6, 12)) + random.normal(size=12)
    rows[:, -1] = 1e-4 * random.standard_normal(count)
    return rows.astype(np.float32)


def lost(kernel: np.ndarray, rounded: np.ndarray) -> float:
    """Return the root mean square of the error of the outputs, without their mean, which a bias corrects."""
    return float(np.std(features() @ (kernel - rounded), axis=0).mean())


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_great_weight_on_a_feature_that_hardly_varies_leaves_steps_for_the_others(per_channel: bool) -> None:
    kernel = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
    kernel[-1] = 1000.0
    plain = Grid(8, per_channel).round(kernel.astype(np.float64), 1)
    assert lost(kernel, plain) > 1  # all but that weight are 0
    assert lost(kernel, round_dense(kernel, features(), per_channel)) < 0.3


@pytest.mark.parametrize(("per_channel", "count"), [(True, 3), (False, 1)])
def test_weights_are_on_255_steps_with_the_greatest_on_the_last(per_channel: bool, count: int) -> None:
    kernel = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
    rounded = round_dense(kernel, features(), per_channel)
    steps = np.unique(np.abs(rounded).max(axis=0 if per_channel else None) / 127)
    assert len(steps) == count
    multiples = rounded / (np.abs(rounded).max(axis=0 if per_channel else None) / 127)
    np.testing.assert_allclose(multiples, np.rint(multiples), atol=1e-6)
    assert lost(kernel, rounded) <= lost(kernel, Grid(8, per_channel).round(kernel.astype(np.float64), 1))


def test_a_kernel_of_zeros_stays() -> None:
    assert not round_dense(np.zeros((12, 3), np.float32), features()).any()
