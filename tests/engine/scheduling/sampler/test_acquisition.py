"""The order before anything was evaluated."""

from __future__ import annotations

from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.engine.scheduling.sampler.acquisition import prior_order
from advisor.engine.scheduling.sampler.hypervolume import Floats, hypervolume, pareto_mask


@st.composite
def tables(draw: st.DrawFn) -> Floats:
    shape = (draw(st.integers(1, 30)), draw(st.sampled_from([2, 3])))
    return draw(arrays(np.float64, shape, elements=st.integers(0, 9).map(float)))


@given(tables())
def test_every_row_comes_once(points: Floats) -> None:
    assert sorted(prior_order(points)) == list(range(len(points)))


@given(tables())
def test_the_front_comes_before_what_it_dominates(points: Floats) -> None:
    order = list(prior_order(points))
    place = {row: i for i, row in enumerate(order)}
    for row, point in enumerate(points):
        dominated = (points >= point).all(axis=1) & (points > point).any(axis=1)
        assert all(place[row] < place[int(other)] for other in np.flatnonzero(dominated))


@given(tables())
def test_the_first_is_the_one_with_the_largest_hypervolume(points: Floats) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    unit = (points - low) / np.where(high > low, high - low, 1.0)
    reference = np.full(points.shape[1], 1.1)
    volumes = [hypervolume(row[None], reference) for row in unit]
    assert volumes[next(prior_order(points))] >= max(volumes) - 1e-12


def test_a_front_is_covered_from_the_middle_outwards_not_from_one_end() -> None:
    angles = np.linspace(0, np.pi / 2, 41)
    points = np.column_stack([1 - np.cos(angles), 1 - np.sin(angles)])
    first = list(islice(prior_order(points), 7))
    assert max(np.diff(sorted(first))) <= 14
    assert abs(first[0] - 20) <= 2


def test_scale_and_offset_of_an_objective_do_not_matter() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    assert list(prior_order(points)) == list(prior_order(points * [1e3, 1e-3, 5.0] + [7.0, -2.0, 1e4]))


def test_a_front_of_many_is_ordered_to_its_end() -> None:
    angles = np.linspace(0, np.pi / 2, 200)
    points = np.column_stack([-np.cos(angles), -np.sin(angles)])
    assert pareto_mask(points).all()
    assert sorted(prior_order(points)) == list(range(200))


def test_an_empty_table_has_no_order() -> None:
    assert list(prior_order(np.zeros((0, 2)))) == []
