from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.compression.observe import Activation, Observation
from advisor.compression.ranges import LEVELS, least_error, off_the_pixels, ranges, span, spans

values = arrays(np.float32, (30, 2), elements=st.floats(-1000, 1000, width=32))


def _activation(samples: np.ndarray) -> Activation:
    return Activation(samples.min(0, keepdims=True), samples.max(0, keepdims=True), samples.mean(0), samples)


def _error(samples: np.ndarray, low: float, high: float) -> float:
    step = max((high - low) / LEVELS, 1e-12)
    return float(np.square(np.clip(np.rint((samples - low) / step), 0, LEVELS) * step + low - samples).sum())


@given(values)
def test_the_span_lies_within_what_was_seen_and_holds_zero(samples: np.ndarray) -> None:
    low, high = least_error(_activation(samples))
    least, greatest = span(_activation(samples))
    assert least <= low <= 0.0 <= high <= greatest


def test_a_lone_outlier_is_clipped() -> None:
    samples = np.random.default_rng(0).normal(size=(200_000, 1)).astype(np.float32)
    samples[0] = 10.0
    low, high = least_error(_activation(samples))
    assert high < 9
    assert _error(samples, low, high) < _error(samples, *span(_activation(samples)))


def test_evenly_spread_values_are_not_clipped() -> None:
    samples = np.linspace(-3, 5, 10_000, dtype=np.float32)[:, None]
    assert np.allclose(least_error(_activation(samples)), (-3, 5), atol=0.3)


def test_scores_keep_their_whole_span() -> None:
    samples = np.random.default_rng(0).normal(size=(200_000, 1)).astype(np.float32)
    samples[0] = 10.0
    observation = Observation({3: _activation(samples), 4: _activation(samples), 5: _activation(samples)})
    found = ranges(observation, source=5, whole={4})
    assert found[4] == spans(observation)[4]
    assert found[3][1] < found[4][1]


def test_pixels_do_not_fall_half_way_between_steps() -> None:
    pixels = ((np.arange(256, dtype=np.float32) - 127.5) / 127.5)[:, None]
    low, high = off_the_pixels(span(_activation(pixels)))
    step = (high - low) / LEVELS
    assert len(np.unique(np.rint(pixels / step))) > 250
    assert len(np.unique(np.rint((np.arange(256) - 127.5) * 1.0))) < 140
