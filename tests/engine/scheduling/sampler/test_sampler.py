"""The sampler: each candidate once, in a good order, in any way that Optuna is driven."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import optuna
import pytest
from hypothesis import given, strategies as st
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import Trial, TrialState

from advisor.engine._scheduling.sampler import AdvisorSampler, Candidate, CandidatesExhausted, Objective
from advisor.engine._scheduling.sampler.hypervolume import hypervolume
from tests.builders import must_fail

OBJECTIVES = (Objective("latency", log=True), Objective("accuracy", "maximize"))
DIRECTIONS: list[Literal["minimize", "maximize"]] = ["minimize", "maximize"]


def _table(count: int = 12, seed: int = 0) -> list[Candidate]:
    rng = np.random.default_rng(seed)
    latency = np.exp(rng.uniform(0, 3, count))
    prior = 60 + 5 * np.log(latency) + rng.normal(0, 3, count)
    return [
        Candidate(
            params={"model": f"m{i // 2}", "threads": 1 + i % 2},
            prior=float(prior[i]),
            known={"latency": float(latency[i])},
            features={"family": "ab"[i % 2], "log_params": float(rng.normal())},
        )
        for i in range(count)
    ]


def _study(sampler: AdvisorSampler, storage: JournalStorage | None = None) -> Study:
    return optuna.create_study(
        directions=DIRECTIONS, sampler=sampler, storage=storage, study_name="s", load_if_exists=True
    )


def _objective(trial: Trial) -> tuple[float, float]:
    model = str(trial.suggest_categorical("model", [f"m{i}" for i in range(6)]))
    threads = int(trial.suggest_categorical("threads", [1, 2]))
    return 10.0 / threads + int(model[1:]), 70.0 + int(model[1:])


def _params(study: Study) -> list[tuple[str, int]]:
    return [(t.params["model"], t.params["threads"]) for t in study.trials]


def test_a_finished_study_says_that_nothing_is_left() -> None:
    study = _study(AdvisorSampler(_table(), OBJECTIVES))
    study.optimize(_objective)
    study.optimize(_objective, n_trials=5)
    assert [t.state for t in study.trials[12:]] == [TrialState.PRUNED]
    sampler = AdvisorSampler(_table(), OBJECTIVES)
    study = _study(sampler)
    while sampler.remaining(study):
        study.tell(study.ask(sampler.distributions), (1.0, 2.0))
    must_fail(CandidatesExhausted, "", study.ask)
    assert [t.state for t in study.trials[12:]] == [TrialState.FAIL]


def test_the_same_seed_and_results_give_the_same_order_whether_resumed_or_not(tmp_path: Path) -> None:
    straight = _study(AdvisorSampler(_table(), OBJECTIVES, seed=3))
    straight.optimize(_objective)
    for _ in range(4):
        storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal")))
        resumed = _study(AdvisorSampler(_table(), OBJECTIVES, seed=3), storage)
        resumed.optimize(_objective, n_trials=3)
    assert _params(straight) == _params(resumed)


def test_threads_of_one_study_get_different_candidates() -> None:
    study = _study(AdvisorSampler(_table(), OBJECTIVES))
    study.optimize(_objective, n_trials=12, n_jobs=4)
    assert len(set(_params(study))) == 12


def test_the_rest_of_a_partly_enqueued_trial_is_chosen_and_one_that_fits_nothing_left_fails() -> None:
    study = _study(AdvisorSampler(_table(), OBJECTIVES))
    for _ in range(3):
        study.enqueue_trial({"model": "m4"})
    study.optimize(_objective, catch=(ValueError,))
    assert sorted(trial.params["threads"] for trial in study.trials[:2]) == [1, 2]
    assert study.trials[2].state == TrialState.FAIL
    assert sum(t.state == TrialState.COMPLETE for t in study.trials) == 12


def test_parameters_outside_the_table_come_from_the_other_sampler() -> None:
    study = _study(AdvisorSampler(_table(), OBJECTIVES, seed=1))

    def objective(trial: Trial) -> tuple[float, float]:
        rate = trial.suggest_float("rate", 0.0, 1.0)
        return _objective(trial)[0], rate

    study.optimize(objective)
    assert len({t.params["rate"] for t in study.trials}) == 12
    assert len(set(_params(study))) == 12


@pytest.mark.parametrize(
    ("table", "objectives", "message"),
    [
        ([], OBJECTIVES, "empty"),
        (_table(), OBJECTIVES[:1], "two or three"),
        (_table(), (Objective("a"), Objective("b")), "all but one"),
        (_table() + _table()[:1], OBJECTIVES, "same parameters"),
        ([*_table(), Candidate({"other": 1}, 1.0, {"latency": 1.0})], OBJECTIVES, "names of their parameters"),
        ([Candidate({"x": 1}, 1.0, {"latency": 0.0})], OBJECTIVES, "positive"),
    ],
)
def test_a_misfitting_table_is_refused(table: list[Candidate], objectives: Sequence[Objective], message: str) -> None:
    must_fail(ValueError, message, AdvisorSampler, table, objectives)


def test_a_study_with_other_directions_and_a_measurement_that_is_not_in_the_table_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=AdvisorSampler(_table(), OBJECTIVES))
    must_fail(ValueError, "directions", study.ask)
    sampler = AdvisorSampler(_table(), OBJECTIVES)
    must_fail(ValueError, "no candidate", sampler.update_known, {"model": "m99", "threads": 1}, {"latency": 1.0})
    must_fail(ValueError, "accuracy", sampler.update_known, {"model": "m1", "threads": 1}, {"accuracy": 1.0})


def test_infeasible_trials_do_not_count_for_the_front() -> None:
    sampler = AdvisorSampler(_table(), OBJECTIVES)
    study = _study(sampler)

    def objective(trial: Trial) -> tuple[float, float]:
        latency, accuracy = _objective(trial)
        trial.set_constraint("latency", 1.0)
        return latency, accuracy

    study.optimize(objective, n_trials=8)
    assert sampler.expected_gain(study) == float("inf")
    study.optimize(_objective, n_trials=2)
    assert sampler.expected_gain(study) < float("inf")


def _constrained_table() -> list[Candidate]:
    """Two families of forty, equal but for the constraint that one of them will not meet."""
    rng = np.random.default_rng(0)
    return [
        Candidate(
            params={"x": i},
            prior=float(60 + 4 * (i // 2 / 10) + rng.normal(0, 1)),
            known={"latency": float(np.exp(i // 2 / 10))},
            features={"family": "heavy" if i % 2 else "light"},
        )
        for i in range(80)
    ]


def test_a_family_that_breaks_the_constraint_is_left_for_later() -> None:
    table = _constrained_table()
    study = optuna.create_study(directions=DIRECTIONS, sampler=AdvisorSampler(table, OBJECTIVES))

    def objective(trial: Trial) -> tuple[float, float]:
        row = int(trial.suggest_categorical("x", list(range(80))))
        trial.set_constraint("memory", 5.0 if row % 2 else -5.0)
        return table[row].known["latency"], table[row].prior

    study.optimize(objective, n_trials=45)
    heavy = [t.params["x"] % 2 for t in study.trials]
    assert sum(heavy[10:40]) < 10
    assert all(t.params["x"] % 2 == 0 for t in study.best_trials)


def test_the_expected_gain_falls_to_nothing() -> None:
    table = _constrained_table()
    sampler, gains = AdvisorSampler(table, OBJECTIVES), dict[int, float]()
    study = optuna.create_study(directions=DIRECTIONS, sampler=sampler)
    for place in range(len(table)):
        entry = table[study.ask(sampler.distributions).params["x"]]
        study.tell(place, (entry.known["latency"], entry.prior))
        if place in (0, 7, 70, 79):
            gains[place] = sampler.expected_gain(study)
    assert gains[0] == float("inf")
    assert gains[70] < 0.02 < gains[7]
    assert gains[79] == sampler.remaining(study) == 0.0


def test_the_cheaper_of_two_equals_comes_first() -> None:
    table = _constrained_table()
    dear = [
        Candidate(c.params, c.prior, c.known, c.features, cost_s=100.0 if i % 2 else 1.0) for i, c in enumerate(table)
    ]
    study = optuna.create_study(directions=DIRECTIONS, sampler=AdvisorSampler(dear, OBJECTIVES))

    def objective(trial: Trial) -> tuple[float, float]:
        entry = dear[int(trial.suggest_categorical("x", list(range(80))))]
        return entry.known["latency"], entry.prior

    study.optimize(objective, n_trials=30)
    by_gain = [t.params["x"] % 2 for t in study.trials[6:] if t.number % 4]
    assert sum(by_gain) == 0


def test_values_that_are_not_finite_are_passed_over() -> None:
    study = _study(AdvisorSampler(_table(), OBJECTIVES))
    study.optimize(lambda trial: (_objective(trial)[0], float("inf")))
    assert len(set(_params(study))) == 12


def test_the_documented_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "sampler.md").read_text(encoding="utf-8")
    example = text.split("```python\n")[1].split("```")[0]
    exec(compile(example, "docs/sampler.md", "exec"), {"__name__": "example"})
    printed = ast.literal_eval(capsys.readouterr().out)
    assert sorted(name for name, _ in printed) == ["medium", "small", "tiny"]


@given(st.lists(st.sampled_from(["ask", "complete", "fail", "prune", "enqueue", "resume"]), max_size=40), st.data())
def test_whatever_happens_no_candidate_is_asked_for_twice(steps: list[str], data: st.DataObject) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = AdvisorSampler(_table(), OBJECTIVES)
    study = _study(sampler)
    running: list[Trial] = []
    waiting: set[tuple[object, ...]] = set()
    for step in steps:
        if step == "ask" and sampler.remaining(study):
            running.append(study.ask(sampler.distributions))
        elif step == "enqueue":
            taken = waiting | {tuple(t.params.values()) for t in study.trials if t.params}
            free = sorted({tuple(c.params.values()) for c in _table()} - taken)
            if free:
                model, threads = data.draw(st.sampled_from(free))
                waiting.add((model, threads))
                study.enqueue_trial({"model": model, "threads": threads})
        elif step == "resume":
            study.sampler = sampler = AdvisorSampler(_table(), OBJECTIVES)
        elif running and step in ("complete", "fail", "prune"):
            _finish(study, running.pop(0), step)
    asked = [tuple(t.params.values()) for t in study.trials if t.params]
    assert len(set(asked)) == len(asked)
    assert sampler.remaining(study) == 12 - len(asked)


def _finish(study: Study, trial: Trial, how: str) -> None:
    if how == "complete":
        study.tell(trial, (1.0 + trial.number, 60.0))
    else:
        study.tell(trial, state=TrialState.FAIL if how == "fail" else TrialState.PRUNED)


def test_what_a_trial_showed_of_another_candidate_moves_that_one_up() -> None:
    table = [Candidate({"x": f"c{i}"}, 60.0, {"latency": 10.0 + i / 10}) for i in range(12)]
    orders = []
    for shown in ({}, {"x": "c9"}):
        sampler = AdvisorSampler(table, OBJECTIVES)
        study, asked = _study(sampler), []
        while sampler.remaining(study):
            trial = study.ask(sampler.distributions)
            asked.append(trial.params["x"])
            if shown:
                trial.set_user_attr("advisor:also", [[shown, 95.0]])
            study.tell(trial, (10.0, 60.0))
        orders.append(asked.index("c9"))
    assert orders[1] < orders[0]


def test_a_blocked_candidate_is_not_suggested_until_it_is_unblocked() -> None:
    table = _table()
    sampler = AdvisorSampler(table, OBJECTIVES)
    study = _study(sampler)
    blocked = np.arange(len(table)) >= 3
    sampler.block(blocked)
    rows = {tuple(each.params.values()) for each in table[:3]}
    assert {tuple(study.ask(sampler.distributions).params.values()) for _ in range(3)} == rows
    must_fail(CandidatesExhausted, "", study.ask, sampler.distributions)
    sampler.block(~blocked)
    assert tuple(study.ask(sampler.distributions).params.values()) not in rows


def test_what_only_teaches_is_no_part_of_the_front() -> None:
    gains = []
    for teaches in (False, True):
        sampler = AdvisorSampler(_table(), OBJECTIVES)
        study = _study(sampler)
        for _ in range(5):
            trial = study.ask(sampler.distributions)
            trial.set_user_attr("advisor:teaches-only", teaches)
            study.tell(trial, _objective(trial))
        gains.append(sampler.expected_gain(study))
    assert gains == [pytest.approx(gains[0]), float("inf")]
    assert gains[0] < 10


def test_of_a_large_table_a_few_candidates_give_most_of_the_front() -> None:
    table = _table(600)
    values = {tuple(each.params.values()): (each.known["latency"], each.prior) for each in table}
    sampler = AdvisorSampler(table, OBJECTIVES)
    study = _study(sampler)
    for _ in range(14):
        trial = study.ask(sampler.distributions)
        study.tell(trial, values[tuple(trial.params.values())])
    losses = np.array([(np.log(latency), -accuracy) for latency, accuracy in values.values()])
    found = np.array([(np.log(trial.values[0]), -trial.values[1]) for trial in study.trials])
    assert hypervolume(found, losses.max(axis=0)) >= 0.9 * hypervolume(losses, losses.max(axis=0))
