"""Which span of values an integer activation covers: the one that loses least, outliers clipped where that pays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.compression.observe import Activation, Observation

Range = tuple[float, float]

BINS = 2048
SHARES = tuple(0.3 + 0.7 * step / 23 for step in range(24))
"""Shares of the observed span that are tried as the span to cover."""

LEVELS = 255


def ranges(observation: Observation, source: int, whole: Collection[int] = ()) -> Mapping[int, Range]:
    """Return the span of each tensor at 8 bits.

    The span minimises the mean squared error of rounding and clipping the observed values (Nagel et al., "A White Paper
    on Neural Network Quantization", 2021, section 3.1): a few outliers would else coarsen every step.

    Args:
        observation: the activations.
        source: the model's input.
        whole: tensors that are not clipped.
    """
    found = observation.activations
    spans_of = {index: span(one) if index in whole else least_error(one) for index, one in found.items()}
    return {**spans_of, source: off_the_pixels(span(found[source]))}


def off_the_pixels(whole: Range) -> Range:
    """Return a span of pixels a little wider.

    Pixels normalised to -1..1 and stored in the 255 steps of just that span each lie half way between two steps, and
    rounding to even leaves seven of their eight bits: int8 MobileNetV1 0.25 lost 3.7 points of TrashNet's training part
    so, and 2.7 otherwise.
    """
    low, high = whole
    return low, high + (high - low) / LEVELS


def spans(observation: Observation) -> Mapping[int, Range]:
    """Return the whole span of each tensor, as 16 bits can afford."""
    return {index: span(one) for index, one in observation.activations.items()}


def span(activation: Activation) -> Range:
    """Return the least and the greatest value, 0 always within."""
    return min(float(activation.lows.min()), 0.0), max(float(activation.highs.max()), 0.0)


def least_error(activation: Activation) -> Range:
    """Return the span at 8 bits with the least mean squared error over the samples."""
    import numpy as np

    low, high = span(activation)
    seen, counts = _seen(activation.samples, low, high)
    best, least = (low, high), np.inf
    for top in SHARES if high > 0 else (1.0,):
        for bottom in SHARES if low < 0 else (1.0,):
            error = _error(seen, counts, low * bottom, high * top)
            if error <= least:
                best, least = (low * bottom, high * top), error
    return best


def _seen(samples: NDArray[np.float32], low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return values and how often each occurs, exactly where they are few, else by bins."""
    import numpy as np

    exact, counts = np.unique(samples, return_counts=True)
    if len(exact) > BINS:
        zero = samples == 0
        binned, edges = np.histogram(samples[~zero], bins=BINS, range=(low, max(high, low + 1e-9)))
        exact, counts = np.append((edges[:-1] + edges[1:]) / 2, 0.0), np.append(binned, zero.sum())
    return exact[counts > 0].astype(np.float64), counts[counts > 0]


def _error(seen: NDArray[np.float64], counts: NDArray[np.int64], low: float, high: float) -> float:
    """Return the sum of squared errors; as in every runtime, 0 lies on a step."""
    import numpy as np

    step = max((high - low) / LEVELS, 1e-12)
    zero = np.rint(-low / step)
    rounded = (np.clip(np.rint(seen / step) + zero, 0, LEVELS) - zero) * step
    return float((counts * np.square(rounded - seen)).sum())
