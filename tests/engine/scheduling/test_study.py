from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import optuna
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.names import SAMPLERS
from advisor.engine.scheduling.storage import journal
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan
from tests.builders import evaluation, present
from tests.engine.plans import planned

CARDS = ["mobilenet_v2_1.0_224", "efficientnet_lite0_224", "squeezenet_1.1_227"]
RUNTIME = "ai-edge-litert==2.3.0"


@pytest.fixture
def plan() -> Plan:
    return planned(load_catalogue().select(CARDS), ("float32", "int8"), (1,), ("head",), RUNTIME)


def study(file: Path, plan: Plan, sampler: str = "advisor", done: tuple[Evaluation, ...] = ()) -> Study:
    return Study(journal(file), "advisor", plan, Budget(latency_ms=50), sampler, seed=0, done=done)


def result(configuration: Configuration) -> Evaluation:
    return replace(evaluation(), configuration=configuration)


def all_asked(asked: Study) -> list[Configuration]:
    found = []
    while (configuration := asked.ask()) is not None:
        found.append(configuration)
        asked.tell(result(configuration))
    return found


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "gp" or find_spec("torch")])
def test_every_configuration_is_asked_once(tmp_path: Path, plan: Plan, sampler: str) -> None:
    found = all_asked(study(tmp_path / "journal", plan, sampler))
    assert sorted(found) == sorted(plan.configurations())


def test_all_can_be_in_flight_at_once(tmp_path: Path, plan: Plan) -> None:
    asked = study(tmp_path / "journal", plan)
    handed_out = [asked.ask() for _ in range(plan.size)]
    assert None not in handed_out
    assert asked.ask() is None


def test_the_same_seed_gives_the_same_order(tmp_path: Path, plan: Plan) -> None:
    first, second = (all_asked(study(tmp_path / name, plan)) for name in ("one", "two"))
    assert first == second


def test_what_was_in_flight_when_the_process_died_is_asked_again(tmp_path: Path, plan: Plan) -> None:
    first = study(tmp_path / "journal", plan)
    done, lost = first.ask(), first.ask()
    assert done is not None
    assert lost is not None
    first.tell(result(done))
    rest = all_asked(study(tmp_path / "journal", plan, done=(result(done),)))
    assert lost in rest
    assert sorted([done, *rest]) == sorted(plan.configurations())


def test_failed_and_skipped_evaluations_are_told_too(tmp_path: Path, plan: Plan) -> None:
    asked = study(tmp_path / "journal", plan)
    for status in (Status.FAILED, Status.SKIPPED):
        configuration = present(asked.ask())
        asked.tell(Evaluation(configuration, status, reason="because", stage="convert"))
    assert len(all_asked(asked)) == plan.size - 2


def test_a_result_kept_just_before_a_kill_is_neither_lost_nor_asked_again(tmp_path: Path, plan: Plan) -> None:
    first = study(tmp_path / "journal", plan)
    kept = present(first.ask())
    again = study(tmp_path / "journal", plan, done=(result(kept),))
    assert kept not in all_asked(again)
    complete = [trial for trial in trials(tmp_path / "journal") if trial.state.name == "COMPLETE"]
    assert len(complete) == plan.size
    assert len({tuple(trial.params.values()) for trial in complete}) == plan.size


def test_a_study_that_was_lost_is_made_again_from_the_evaluations(tmp_path: Path, plan: Plan) -> None:
    done = tuple(result(configuration) for configuration in plan.configurations()[:4])
    rest = all_asked(study(tmp_path / "journal", plan, done=done))
    assert sorted([*(each.configuration for each in done), *rest]) == sorted(plan.configurations())
    assert sum(trial.state.name == "COMPLETE" for trial in trials(tmp_path / "journal")) == plan.size


def test_what_failed_can_be_asked_again(tmp_path: Path, plan: Plan) -> None:
    first = study(tmp_path / "journal", plan)
    failed = present(first.ask())
    first.tell(Evaluation(failed, Status.FAILED, reason="killed", stage="convert"))
    assert failed in all_asked(study(tmp_path / "journal", plan))


def test_taking_up_twice_asks_for_nothing_twice(tmp_path: Path, plan: Plan) -> None:
    assert study(tmp_path / "journal", plan).ask() is not None
    assert study(tmp_path / "journal", plan).ask() is not None
    found = all_asked(study(tmp_path / "journal", plan))
    assert sorted(found) == sorted(plan.configurations())


def test_a_study_goes_on_from_every_line_of_its_journal(tmp_path: Path, plan: Plan) -> None:
    """A process may be killed in each line: the first one that works, and the second one that asks again."""
    first = study(tmp_path / "journal", plan)
    done = result(asked(first))
    first.tell(done)
    asked(first)
    second = study(tmp_path / "journal", plan, done=(done,))
    second.tell(Evaluation(asked(second), Status.FAILED, reason="killed", stage="convert"))
    asked(second)
    lines = (tmp_path / "journal").read_bytes().splitlines(keepends=True)
    for count in range(0, len(lines), 3):
        file = tmp_path / f"journal-{count}"
        file.write_bytes(b"".join(lines[:count]) + lines[count][:-5])
        rest = all_asked(study(file, plan, done=(done,)))
        assert sorted([done.configuration, *rest]) == sorted(plan.configurations()), lines[count]


def asked(of: Study) -> Configuration:
    return present(of.ask())


def test_it_counts_what_has_no_result(tmp_path: Path, plan: Plan) -> None:
    asked = study(tmp_path / "journal", plan)
    configuration = present(asked.ask())
    assert asked.unevaluated == plan.size
    asked.tell(result(configuration))
    assert asked.unevaluated == plan.size - 1


def trials(file: Path) -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(storage=journal(file), study_name="advisor").get_trials()
