from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.compression.quantization.clusters import clusters

kernels = arrays(np.float32, (4, 6), elements=st.floats(-10, 10, width=32))


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
