"""Remembering how trials were split changes no suggestion."""

from __future__ import annotations

import optuna
import pytest

from benchmarks.quick_tpe import splits_remembered

SPACE = {name: optuna.distributions.CategoricalDistribution(range(9)) for name in ("a", "b")}


def _suggestions() -> list[dict[str, int]]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=optuna.samplers.TPESampler(seed=0))
    found = []
    for _ in range(30):
        trial = study.ask(SPACE)
        found.append(trial.params)
        study.tell(trial, [trial.params["a"] - trial.params["b"], trial.params["b"] ** 2])
    return found


def test_suggestions_stay_the_same_and_trials_are_split_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    from optuna.samplers._tpe import sampler

    plain, counted, split = _suggestions(), [], sampler._split_trials
    monkeypatch.setattr(sampler, "_split_trials", lambda *given: counted.append(given) or split(*given))
    with splits_remembered():
        assert _suggestions() == plain
    assert len(counted) == 20  # the first ten suggestions are random
