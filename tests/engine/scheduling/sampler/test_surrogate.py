"""The regression that corrects the prior, and the expected gain that rests on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.engine.scheduling.sampler.design import make_design
from advisor.engine.scheduling.sampler.hypervolume import Floats, expected_gain, hypervolume_improvement
from advisor.engine.scheduling.sampler.surrogate import Surrogate

COUNT = 120


def _pool(seed: int) -> tuple[np.random.Generator, Floats, Floats, list[dict[str, float | str]]]:
    rng = np.random.default_rng(seed)
    prior, known = rng.normal(75, 5, COUNT), rng.normal(3, 1, (COUNT, 1))
    features: list[dict[str, float | str]] = [
        {"family": f"f{i % 6}", "log_params": float(rng.normal())} for i in range(COUNT)
    ]
    return rng, prior, known, features


def _fitted(design_of: tuple[Floats, Floats, list[dict[str, float | str]]], truth: Floats, rows: range) -> Surrogate:
    surrogate = Surrogate(make_design(*design_of))
    for row in rows:
        surrogate.add(row, float(truth[row]))
    return surrogate


def _error(truth: Floats, means: Floats) -> float:
    return float(np.sqrt(np.mean((truth[60:] - means[60:]) ** 2)))


@pytest.mark.parametrize("seed", range(3))
def test_a_good_prior_is_trusted(seed: int) -> None:
    rng, prior, known, features = _pool(seed)
    truth = 2 * prior - 90 + rng.normal(0, 1, COUNT)
    surrogate = _fitted((prior, known, features), truth, range(20))
    assert _error(truth, surrogate.means()) < 2.0


@pytest.mark.parametrize("seed", range(3))
def test_a_prior_without_meaning_is_no_worse_than_the_mean(seed: int) -> None:
    rng, prior, known, features = _pool(seed)
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
    surrogate = Surrogate(make_design(prior, known, features))
    for row in seen:
        surrogate.add(row, float(truth[row]))
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


@settings(max_examples=25)
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
    gains = expected_gain(points, sd, front, np.ones(4))
    assert gains == pytest.approx(np.array(expected), rel=0.01, abs=1e-4)


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
    short = expected_gain(points, sd, front, np.ones(1000))
    alone = np.concatenate([expected_gain(points[[i]], sd[[i]], front, np.ones(1)) for i in range(1000)])
    assert int(np.argmax(short)) == int(np.argmax(alone))
    assert short.max() == pytest.approx(alone.max())
