from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.compression.shapes import clusters, keep_largest

kernels = arrays(np.float32, (4, 6), elements=st.floats(-10, 10, width=32))


@given(kernels, st.sampled_from([0.0, 0.25, 0.5, 0.75]))
def test_the_share_asked_for_goes_and_the_largest_stay(kernel: np.ndarray, share: float) -> None:
    keep = keep_largest(kernel, share)
    assert keep.sum() == round((1 - share) * kernel.size)
    if 0 < keep.sum() < kernel.size:
        assert np.abs(kernel[keep == 0]).max() <= np.abs(kernel[keep == 1]).min()


@given(kernels, st.integers(2, 16))
def test_each_weight_takes_the_nearest_value(kernel: np.ndarray, count: int) -> None:
    values, places = clusters(kernel, count)
    assert len(values) == count
    distances = np.abs(kernel[..., None] - values)
    taken = np.take_along_axis(distances, places[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(taken, distances.min(axis=-1), atol=1e-5)


def test_few_values_are_kept_exactly() -> None:
    kernel = np.random.default_rng(0).choice(np.array([-1.0, 0.0, 0.5], np.float32), (8, 8))
    values, places = clusters(kernel, 16)
    np.testing.assert_allclose(values[places], kernel, atol=1e-6)
