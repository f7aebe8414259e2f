from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.compression.quantization.observe import LEVELS, Activation, Observation, widened_for_pixels

values = arrays(np.float32, (30, 2), elements=st.floats(-1000, 1000, width=32))


def _activation(values: np.ndarray) -> Activation:
    return Activation(values.min(0), values.max(0), values.mean(0))


@given(values)
def test_the_span_holds_zero_and_all_that_was_seen(values: np.ndarray) -> None:
    low, high = _activation(values).range
    assert low <= min(values.min(), 0)
    assert high >= max(values.max(), 0)


def test_outliers_keep_their_place_and_pixels_get_room() -> None:
    values = np.random.default_rng(0).normal(size=(200_000, 1)).astype(np.float32)
    values[0] = 10.0
    observation = Observation({3: _activation(values), 5: _activation(values)}, {}, sources=(5,))
    found = observation.ranges()
    assert found[3] == (values.min(), 10.0)
    assert found[5][1] > 10.0
    assert observation.ranges(16)[5] == found[3]


def test_pixels_do_not_fall_half_way_between_steps() -> None:
    pixels = ((np.arange(256, dtype=np.float32) - 127.5) / 127.5)[:, None]
    low, high = widened_for_pixels(_activation(pixels).range)
    step = (high - low) / LEVELS
    assert len(np.unique(np.rint(pixels / step))) > 250
    assert len(np.unique(np.rint((np.arange(256) - 127.5) * 1.0))) < 140
