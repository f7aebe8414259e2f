from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.search.plan import Plan
from advisor.search.storage import journal
from advisor.search.study import Study
from tests.builders import evaluation

CARDS = ["mobilenet_v2_1.0_224", "efficientnet_lite0_224", "squeezenet_1.1_227"]
RUNTIME = "ai-edge-litert==2.3.0"


@pytest.fixture
def plan() -> Plan:
    return Plan(load_catalogue().select(CARDS), ("float32", "int8"), (1,), "head", RUNTIME)


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


@pytest.mark.parametrize("sampler", ["advisor", "tpe", "nsga2", "random"])
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
        configuration = asked.ask()
        assert configuration is not None
        asked.tell(Evaluation(configuration, status, reason="because", stage="convert"))
    assert len(all_asked(asked)) == plan.size - 2
