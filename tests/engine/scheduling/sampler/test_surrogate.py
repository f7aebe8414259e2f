"""The regression that corrects the prior, the gain that rests on it, and hypervolume against Optuna's."""

from collections.abc import Iterable
from functools import cache
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from optuna._hypervolume import compute_hypervolume

from advisor.engine._scheduling.sampler.hypervolume import (
    Floats,
    compute_expected_gain,
    hypervolume,
    hypervolume_improvement,
    pareto_mask,
    prior_order,
)
from advisor.engine._scheduling.sampler.surrogate import Surrogate, make_design
from tests.builders import must_fail

COUNT = 120
FEW = settings(max_examples=40)  # a set of few points on a small lattice has each kind of tie and copy by then
WORST = 6.0


def _pool(seed: int) -> tuple[np.random.Generator, Floats, Floats, list[dict[str, float | str]]]:
    rng = np.random.default_rng(seed)
    prior, known = rng.normal(75, 5, COUNT), rng.normal(3, 1, (COUNT, 1))
    features: list[dict[str, float | str]] = [
        {"family": f"f{i % 6}", "log_params": float(rng.normal())} for i in range(COUNT)
    ]
    return rng, prior, known, features


def _fitted(
    design_of: tuple[Floats, Floats, list[dict[str, float | str]]], truth: Floats, rows: Iterable[int]
) -> Surrogate:
    surrogate = Surrogate(make_design(*design_of))
    for row in rows:
        surrogate.add(row, float(truth[row]))
    return surrogate


def _error(truth: Floats, means: Floats) -> float:
    return float(np.sqrt(np.mean((truth[60:] - means[60:]) ** 2)))


@pytest.mark.parametrize("seed", range(3))
def test_a_good_prior_is_trusted_and_one_without_meaning_is_no_worse_than_the_mean(seed: int) -> None:
    rng, prior, known, features = _pool(seed)
    truth = 2 * prior - 90 + rng.normal(0, 1, COUNT)
    surrogate = _fitted((prior, known, features), truth, range(20))
    assert _error(truth, surrogate.means()) < 2.0
    truth = rng.normal(50, 4, COUNT)
    surrogate = _fitted((prior, known, features), truth, range(40))
    assert _error(truth, surrogate.means()) < 1.25 * _error(truth, np.full(COUNT, truth[:40].mean()))


def test_a_family_that_behaves_apart_gets_its_own_level() -> None:
    rng, prior, known, features = _pool(0)
    apart = np.array([each["family"] == "f2" for each in features])
    truth = prior + 20.0 * apart + rng.normal(0, 1, COUNT)
    surrogate = _fitted((prior, known, features), truth, range(30))
    residual = (surrogate.means() - prior)[60:]
    assert residual[apart[60:]].mean() - residual[~apart[60:]].mean() == pytest.approx(20.0, abs=3.0)


@pytest.mark.parametrize("seed", range(3))
def test_deviations_match_the_errors(seed: int) -> None:
    rng, prior, known, features = _pool(seed)
    truth = prior + 3 * known[:, 0] + rng.normal(0, 2, COUNT)
    surrogate = _fitted((prior, known, features), truth, range(60))
    scores = (truth - surrogate.means())[60:] / surrogate.deviations(np.arange(60, COUNT))
    assert 0.7 < float(np.sqrt(np.mean(scores**2))) < 1.4


def test_what_was_never_seen_is_less_certain() -> None:
    rng, prior, known, features = _pool(0)
    truth = prior + 10 * np.array([_level(each) for each in features]) + rng.normal(0, 1, COUNT)
    seen = [row for row in range(COUNT) if features[row]["family"] != "f5"]
    surrogate = _fitted((prior, known, features), truth, seen)
    unseen = np.array([row for row in range(COUNT) if row not in set(seen)])
    assert surrogate.deviations(unseen).min() > 2 * surrogate.deviations(np.array(seen)).max()


def _level(features: dict[str, float | str]) -> float:
    """A level for each family, some far from the others."""
    return [0.0, 1.0, -1.0, 2.0, -2.0, 0.5][int(str(features["family"])[1:])]


def test_a_resumed_run_predicts_as_one_that_was_not_interrupted() -> None:
    rng, prior, known, features = _pool(1)
    truth = prior + rng.normal(0, 1, COUNT)
    resumed = _fitted((prior, known, features), truth, range(100))
    stepwise = Surrogate(make_design(prior, known, features))
    for row in range(100):
        stepwise.add(row, float(truth[row]))
        stepwise.means()
    assert stepwise.means() == pytest.approx(resumed.means())
    assert stepwise.deviations(np.arange(COUNT)) == pytest.approx(resumed.deviations(np.arange(COUNT)))


def test_a_changed_feature_counts_as_if_it_had_been_known_from_the_start() -> None:
    rng, prior, known, features = _pool(2)
    truth = prior + rng.normal(0, 1, COUNT)
    changed = _fitted((prior, np.zeros((COUNT, 1)), features), truth, range(40))
    changed.means()
    changed.replace_design(make_design(prior, known, features))
    assert changed.means() == pytest.approx(_fitted((prior, known, features), truth, range(40)).means())


@pytest.mark.parametrize("truth", [np.full(COUNT, 5.0), np.arange(COUNT) * 1e9])
def test_degenerate_values_give_finite_predictions(truth: Floats) -> None:
    _, prior, known, features = _pool(0)
    surrogate = _fitted((prior, known, features), truth, range(3))
    assert np.isfinite(surrogate.means()).all()
    assert (surrogate.deviations(np.arange(COUNT)) > 0).all()


def test_missing_and_constant_features_do_no_harm() -> None:
    features: list[dict[str, float | str]] = [{"a": 1.0}, {"a": 1.0, "b": 2.0}, {"family": "x"}, {}]
    design = make_design(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros((4, 1)), features)
    assert np.isfinite(design.matrix).all()
    assert design.blocks["number"].size == 0


@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_expected_gain_is_the_mean_of_the_gains(seed: int, objectives: int) -> None:
    rng = np.random.default_rng(seed)
    front, points = rng.uniform(0, 1, (6, objectives)), rng.uniform(-0.1, 1.1, (4, objectives))
    sd = rng.uniform(0.01, 0.4, 4)
    quantiles = _t4_quantiles(20_001)
    expected = []
    for point, deviation in zip(points, sd, strict=True):
        draws = np.repeat(point[None], len(quantiles), axis=0)
        draws[:, -1] += quantiles * deviation / np.sqrt(2)
        expected.append(hypervolume_improvement(draws, front, np.ones(objectives)).mean())
    gains = compute_expected_gain(points, sd, front, np.ones(4))
    assert gains == pytest.approx(np.array(expected), rel=0.01, abs=1e-4)


@cache
def _t4_quantiles(count: int) -> Floats:
    """Evenly spaced quantiles of Student's t with four degrees of freedom, from numerical integration."""
    grid = np.sinh(np.linspace(-8, 8, 400_001))
    density = 0.375 * (1 + grid**2 / 4) ** -2.5
    steps = np.diff(grid) * (density[1:] + density[:-1]) / 2
    cumulative = np.concatenate([[0.0], np.cumsum(steps)])
    return np.interp((np.arange(count) + 0.5) / count, cumulative / cumulative[-1], grid)


def test_the_short_way_through_many_points_finds_the_best() -> None:
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, np.pi / 2, (60, 2))
    front = 1 - 0.8 * np.column_stack(
        [np.cos(angles[:, 0]), np.sin(angles[:, 0]) * np.cos(angles[:, 1]), np.sin(angles[:, 0]) * np.sin(angles[:, 1])]
    )
    points, sd = rng.uniform(0, 1, (1000, 3)), rng.uniform(0.01, 0.1, 1000)
    short = compute_expected_gain(points, sd, front, np.ones(1000))
    parts = [slice(start, start + 50) for start in range(0, 1000, 50)]  # few enough to be scored over the whole front
    alone = np.concatenate([compute_expected_gain(points[part], sd[part], front, np.ones(50)) for part in parts])
    assert int(np.argmax(short)) == int(np.argmax(alone))
    assert short.max() == pytest.approx(alone.max())


@st.composite
def tables(draw: st.DrawFn) -> Floats:
    shape = (draw(st.integers(1, 30)), draw(st.sampled_from([2, 3])))
    return draw(arrays(np.float64, shape, elements=st.integers(0, 9).map(float)))


@FEW
@given(tables())
def test_every_row_comes_once(points: Floats) -> None:
    assert sorted(prior_order(points)) == list(range(len(points)))


@FEW
@given(tables())
def test_the_front_comes_before_what_it_dominates(points: Floats) -> None:
    order = list(prior_order(points))
    place = {row: i for i, row in enumerate(order)}
    for row, point in enumerate(points):
        dominated = (points >= point).all(axis=1) & (points > point).any(axis=1)
        assert all(place[row] < place[int(other)] for other in np.flatnonzero(dominated))


@FEW
@given(tables())
def test_the_first_is_the_one_with_the_largest_hypervolume(points: Floats) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    unit = (points - low) / np.where(high > low, high - low, 1.0)
    reference = np.full(points.shape[1], 1.1)
    volumes = [hypervolume(row[None], reference) for row in unit]
    assert volumes[next(prior_order(points))] >= max(volumes) - 1e-12


def test_a_front_is_covered_from_the_middle_outwards_to_its_end() -> None:
    angles = np.linspace(0, np.pi / 2, 41)
    points = np.column_stack([1 - np.cos(angles), 1 - np.sin(angles)])
    first = list(islice(prior_order(points), 7))
    assert max(np.diff(sorted(first))) <= 14
    assert abs(first[0] - 20) <= 2
    angles = np.linspace(0, np.pi / 2, 200)
    points = np.column_stack([-np.cos(angles), -np.sin(angles)])
    assert pareto_mask(points).all()
    assert sorted(prior_order(points)) == list(range(200))


@st.composite
def point_sets(draw: st.DrawFn, least: int = 0) -> Floats:
    """Up to a dozen points on a small lattice, so that ties, copies and points on the reference are common."""
    shape = (draw(st.integers(least, 12)), draw(st.sampled_from([2, 3])))
    return draw(arrays(np.float64, shape, elements=st.integers(0, 7).map(float)))


@FEW
@given(point_sets())
def test_hypervolume_is_that_of_optuna(points: Floats) -> None:
    reference = np.full(points.shape[1], WORST)
    inside = points[(points <= WORST).all(axis=1)]
    expected = compute_hypervolume(inside, reference) if len(inside) else 0.0
    assert hypervolume(points, reference) == pytest.approx(expected)


@FEW
@given(point_sets(least=1), st.data())
def test_improvement_is_the_difference_of_two_hypervolumes(points: Floats, data: st.DataObject) -> None:
    reference = np.full(points.shape[1], WORST)
    split = data.draw(st.integers(0, len(points)))
    front, others = points[:split], points[split:]
    before = hypervolume(front, reference)
    expected = [hypervolume(np.vstack([front, other]), reference) - before for other in others]
    assert hypervolume_improvement(others, front, reference) == pytest.approx(np.array(expected))


@FEW
@given(point_sets())
def test_what_is_kept_is_what_nothing_dominates(points: Floats) -> None:
    kept = pareto_mask(points)
    for row, point in enumerate(points):
        no_worse = (points <= point).all(axis=1)
        dominated = (no_worse & (points < point).any(axis=1)).any()
        copied_before = (points[:row] == point).all(axis=1).any()
        assert kept[row] == (not dominated and not copied_before)


def test_a_value_that_is_not_a_number_is_refused() -> None:
    must_fail(ValueError, "NaN", hypervolume, [[1.0, float("nan")]], [2.0, 2.0])
