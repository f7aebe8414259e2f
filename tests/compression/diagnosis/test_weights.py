from __future__ import annotations

import numpy as np
import pytest

from advisor.compression.diagnosis.pairs import fitted

RANDOM = np.random.default_rng(0)
KERNEL = RANDOM.standard_normal((16, 3, 3, 8))
FACTORS = RANDOM.uniform(1.2, 8.0, 16)


@pytest.mark.parametrize("axis", [0, 3])
def test_factors_are_found_through_rounding(axis: int) -> None:
    kernel = KERNEL if axis == 0 else np.moveaxis(KERNEL, 0, 3)
    shape = [1] * 4
    shape[axis] = -1
    stored = np.rint(kernel * FACTORS.reshape(shape) * 20) / 20
    found = fitted(kernel, stored, axis)
    assert found is not None
    np.testing.assert_allclose(found, FACTORS, rtol=0.02)


def test_rounding_alone_is_no_factor() -> None:
    assert fitted(KERNEL, np.rint(KERNEL * 4) / 4, 0) is None


def test_a_channel_without_weights_is_told_by_its_bias() -> None:
    kernel, biases = KERNEL.copy(), np.full(16, 2.0)
    kernel[5] = 1e-9
    stored = kernel * FACTORS.reshape(-1, 1, 1, 1)
    stored[5] = 1e-3
    found = fitted(kernel, stored, 0, biases * FACTORS, biases)
    assert found is not None
    np.testing.assert_allclose(found, FACTORS, rtol=0.02)


def test_what_is_no_multiple_keeps_the_factor_one() -> None:
    stored = KERNEL * FACTORS.reshape(-1, 1, 1, 1)
    stored[3] = RANDOM.standard_normal((3, 3, 8))
    found = fitted(KERNEL, stored, 0)
    assert found is not None
    assert found[3] == 1
