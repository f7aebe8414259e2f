"""Hypervolume against Optuna's, and what points add against the difference of two volumes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from optuna._hypervolume import compute_hypervolume

from advisor.engine.scheduling.sampler.hypervolume import Floats, hypervolume, hypervolume_improvement, pareto_mask

WORST = 6.0


@st.composite
def point_sets(draw: st.DrawFn, least: int = 0) -> Floats:
    """Up to a dozen points on a small lattice, so that ties, copies and points on the reference are common."""
    shape = (draw(st.integers(least, 12)), draw(st.sampled_from([2, 3])))
    return draw(arrays(np.float64, shape, elements=st.integers(0, 7).map(float)))


@given(point_sets())
def test_hypervolume_is_that_of_optuna(points: Floats) -> None:
    reference = np.full(points.shape[1], WORST)
    inside = points[(points <= WORST).all(axis=1)]
    expected = compute_hypervolume(inside, reference) if len(inside) else 0.0
    assert hypervolume(points, reference) == pytest.approx(expected)


@given(point_sets(least=1), st.data())
def test_improvement_is_the_difference_of_two_hypervolumes(points: Floats, data: st.DataObject) -> None:
    reference = np.full(points.shape[1], WORST)
    split = data.draw(st.integers(0, len(points)))
    front, others = points[:split], points[split:]
    before = hypervolume(front, reference)
    expected = [hypervolume(np.vstack([front, other]), reference) - before for other in others]
    assert hypervolume_improvement(others, front, reference) == pytest.approx(np.array(expected))


@given(point_sets())
def test_what_is_kept_is_what_nothing_dominates(points: Floats) -> None:
    kept = pareto_mask(points)
    for row, point in enumerate(points):
        no_worse = (points <= point).all(axis=1)
        dominated = (no_worse & (points < point).any(axis=1)).any()
        copied_before = (points[:row] == point).all(axis=1).any()
        assert kept[row] == (not dominated and not copied_before)


@given(point_sets(least=1))
def test_hypervolume_does_not_depend_on_the_order_of_points_or_objectives(points: Floats) -> None:
    reference = np.arange(points.shape[1]) + 5.0
    volume = hypervolume(points, reference)
    assert hypervolume(points[::-1], reference) == pytest.approx(volume)
    assert hypervolume(points[:, ::-1], reference[::-1]) == pytest.approx(volume)


def test_no_points_have_no_hypervolume() -> None:
    assert hypervolume([], [1.0, 1.0]) == 0.0
    assert hypervolume_improvement([], [], [1.0, 1.0]).shape == (0,)


@pytest.mark.parametrize(
    ("points", "reference"), [([[1.0]], [2.0]), ([[1.0, 1.0]], [2.0, 2.0, 2.0]), ([[1.0] * 4], [2.0] * 4)]
)
def test_other_numbers_of_objectives_are_refused(points: list[list[float]], reference: list[float]) -> None:
    with pytest.raises(ValueError, match="2 or 3"):
        hypervolume(points, reference)


def test_a_value_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        hypervolume([[1.0, float("nan")]], [2.0, 2.0])
