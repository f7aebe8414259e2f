from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.compression.quantization.grid import clusters, spread

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


def _problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs that know much of each other, weights, and coarse steps."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(500, 4)) @ draw.normal(size=(4, 12)) + 0.1 * draw.normal(size=(500, 12))
    weights = draw.normal(size=(12, 5))
    return rows, weights, np.abs(weights).max(axis=0) / 7


@given(st.integers(0, 1000))
def test_outputs_move_less_than_by_rounding_to_the_nearest(seed: int) -> None:
    rows, weights, steps = _problem(seed)
    moments = rows.T @ rows / len(rows)
    errors = [
        np.square(rows @ (rounded - weights)).mean()
        for rounded in (spread(weights, steps, moments), np.rint(weights / steps) * steps)
    ]
    assert errors[0] < errors[1]


@given(st.integers(0, 1000))
def test_weights_are_multiples_of_their_steps_and_the_greatest_stays(seed: int) -> None:
    rows, weights, steps = _problem(seed)
    found = spread(weights, steps, rows.T @ rows / len(rows), last=7) / steps
    np.testing.assert_allclose(found, np.rint(found), atol=1e-9)
    np.testing.assert_array_equal(np.rint(np.abs(found).max(axis=0)), 7)


def test_channels_with_inputs_of_their_own_are_rounded_as_each_alone() -> None:
    rows, weights, steps = _problem(0)
    moments = np.stack([rows.T @ rows / len(rows) * (1 + channel) for channel in range(5)])
    found = spread(weights, steps, moments)
    for channel in range(5):
        one = slice(channel, channel + 1)
        # Each alone goes by the size of its inputs; together they go in order.
        order = np.argsort(-np.diag(moments[channel]), kind="stable")
        again = spread(weights[order][:, one], steps[one], moments[channel][np.ix_(order, order)])
        assert (
            np.abs(rows[:, order] @ (again - weights[order][:, one])).mean()
            < 2 * np.abs(rows @ (found - weights)[:, one]).mean() + 1e-6
        )


def test_inputs_that_no_image_shows_are_rounded_to_the_nearest() -> None:
    weights = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(spread(weights, np.full(2, 0.1), np.zeros((6, 6))), np.rint(weights / 0.1) * 0.1)
