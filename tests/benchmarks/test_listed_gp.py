"""The Gaussian process over a list: the exact acquisition, and that only the list is chosen from."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.listed_gp import improvement


def test_improvement_is_what_sampling_comes_to() -> None:
    rng = np.random.default_rng(0)
    means, deviations = rng.normal(size=(3, 2)), rng.uniform(0.1, 1, size=(3, 2))
    lower = np.array([[-1.0, 0.5], [0.2, -1.0]])  # what a front of (0.2, 0.5) leaves above the reference (-1, -1)
    upper = np.array([[np.inf, np.inf], [np.inf, 0.5]])
    drawn = means[:, None] + deviations[:, None] * rng.normal(size=(3, 200_000, 2))
    boxes = [np.clip(drawn - low, 0, high - low).prod(axis=2) for low, high in zip(lower, upper, strict=True)]
    assert improvement(means, deviations, lower, upper) == pytest.approx(sum(boxes).mean(axis=1), rel=0.02)


def test_a_certain_point_gains_its_own_volume() -> None:
    found = improvement(np.array([[2.0, 3.0]]), np.zeros((1, 2)), np.zeros((1, 2)), np.full((1, 2), np.inf))
    assert found == pytest.approx([6.0])


def test_it_suggests_nothing_but_what_is_listed() -> None:
    pytest.importorskip("torch", reason="Optuna's Gaussian process needs PyTorch")
    import optuna

    from benchmarks.listed_gp import ListedGP

    space = {"place": optuna.distributions.CategoricalDistribution(range(40))}
    left = set(range(40))
    study = optuna.create_study(directions=["minimize"] * 2)
    study.sampler = ListedGP(lambda: [{"place": place} for place in sorted(left)], seed=0)
    first = [study.ask(space) for _ in range(10)]
    for trial in first:
        left.discard(trial.params["place"])
        study.tell(trial, [trial.params["place"], -trial.params["place"]])
    for _ in range(5):
        trial = study.ask(space)
        assert trial.params["place"] in left
        left.remove(trial.params["place"])
        study.tell(trial, [trial.params["place"], -trial.params["place"]])
