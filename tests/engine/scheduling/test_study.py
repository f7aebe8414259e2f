"""What ``--sampler`` names and is told before it suggests, and a study in the real optuna-dashboard."""

import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna
import pytest

from advisor.catalog import Catalogue
from advisor.core import (
    Configuration,
    Evaluation,
    Limits,
    Provenance,
    Quantity,
    Sampler,
    Status,
    UsageError,
    install_extra,
)
from advisor.engine import preview, resolve
from advisor.engine._scheduling.sampler import AdvisorSampler
from advisor.engine._scheduling.storage import open_journal
from advisor.engine._scheduling.study import Study, constraints
from advisor.engine._scheduling.suggesting import Suggester, make_suggester, parameters
from advisor.engine._space.plan import Plan
from tests.builders import RUNTIME, evaluation, must_fail, present
from tests.engine.plans import planned

pytestmark = pytest.mark.integration

CARDS = ["mobilenet_v2_1.0_224", "squeezenet_1.1_227"]
PLAN = planned(Catalogue.load().select(CARDS), ("float32", "int8"), (1,), ("head", "finetune_top"), RUNTIME)


@pytest.fixture
def plan() -> Plan:
    return planned(Catalogue.load().select(CARDS), ("float32", "int8"), (1,), ("head",), RUNTIME)


def study(file: Path, plan: Plan, sampler: str = "advisor", done: tuple[Evaluation, ...] = ()) -> Study:
    return Study(open_journal(file), "advisor", plan, Limits(latency_ms=50), sampler, seed=0, done=done)


def result(configuration: Configuration) -> Evaluation:
    return replace(evaluation(), configuration=configuration)


def all_asked(asked: Study) -> list[Configuration]:
    found = []
    while (configuration := asked.ask()) is not None:
        found.append(configuration)
        asked.tell(result(configuration))
    return found


def test_a_chosen_configuration_comes_before_what_somebody_enqueued_and_loses_none(tmp_path: Path, plan: Plan) -> None:
    file = tmp_path / "study.log"
    asked = study(file, plan)
    other, chosen = list(asked.not_started)[:2]
    optuna.load_study(study_name="advisor", storage=open_journal(file)).enqueue_trial(parameters(other))
    asked.take(chosen)
    assert {other, chosen} & set(asked.not_started) == {other}
    asked.take(other)
    asked.tell(result(other))


@pytest.mark.parametrize("sampler", [name for name in Sampler if name != "gp" or find_spec("torch")])
def test_every_configuration_is_asked_once(tmp_path: Path, plan: Plan, sampler: str) -> None:
    found = all_asked(study(tmp_path / "journal", plan, sampler))
    assert sorted(found) == sorted(plan.configurations())


def test_failed_and_skipped_evaluations_are_told_and_a_lost_study_is_made_from_them(tmp_path: Path, plan: Plan) -> None:
    asked = study(tmp_path / "journal", plan)
    for status in (Status.FAILED, Status.SKIPPED):
        configuration = present(asked.ask())
        asked.tell(Evaluation(configuration, status, reason="because", stage="convert"))
    assert len(all_asked(asked)) == plan.size - 2
    done = tuple(result(configuration) for configuration in plan.configurations()[:2])
    rest = all_asked(study(tmp_path / "journal", plan, done=done))
    assert sorted([*(each.configuration for each in done), *rest]) == sorted(plan.configurations())
    assert sum(trial.state.name == "COMPLETE" for trial in trials(tmp_path / "journal")) == plan.size


def test_a_study_goes_on_from_every_line_of_its_journal(tmp_path: Path, plan: Plan) -> None:
    """Of a process that was killed in any line, what was in flight or failed is asked again, and nothing twice."""
    first = study(tmp_path / "journal", plan)
    done = result(asked(first))
    first.tell(done)
    asked(first)
    second = study(tmp_path / "journal", plan, done=(done,))
    second.tell(Evaluation(asked(second), Status.FAILED, reason="killed", stage="convert"))
    asked(second)
    lines = (tmp_path / "journal").read_bytes().splitlines(keepends=True)
    torn = [b"".join(lines[:count]) + lines[count][:-5] for count in range(0, len(lines), 3)]
    for count, content in enumerate([*torn, b"".join(lines)]):
        file = tmp_path / f"journal-{count}"
        file.write_bytes(content)
        rest = all_asked(study(file, plan, done=(done,)))
        assert sorted([done.configuration, *rest]) == sorted(plan.configurations()), content[-200:]


def asked(of: Study) -> Configuration:
    return present(of.ask())


def test_a_search_that_goes_on_does_not_look_at_the_hold_out() -> None:
    refuted = replace(evaluation("one"), holdout_accuracy=Quantity(50.0, "%", Provenance.MEASURED, 49.0, 51.0, n=500))
    limits = Limits(min_accuracy=70.0)
    assert not limits.met_by(refuted)
    assert constraints(refuted, limits) == constraints(replace(refuted, holdout_accuracy=None), limits)


def trials(file: Path) -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(storage=open_journal(file), study_name="advisor").get_trials()


def test_without_pytorch_the_gaussian_process_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    refused = must_fail(UsageError, "PyTorch is not installed", preview, resolve({"sampler": "gp"}))
    assert install_extra("gp") in refused.hint


def suggester(name: str = Sampler.ADVISOR) -> Suggester:
    return make_suggester(name, PLAN, seed=0, done=())


@pytest.mark.parametrize("name", [Sampler.TPE, Sampler.NSGA2, Sampler.RANDOM])
def test_optunas_samplers_do_not_know_what_may_start(name: str) -> None:
    assert not suggester(name).suggests_admitted


@pytest.mark.parametrize("earlier", [0, 60])  # many results of a card do not hide its next ones
def test_a_measured_latency_reaches_the_sampler(earlier: int) -> None:
    order = []
    for slower in (1.0, 1e6):
        made = suggester()
        for _ in range(earlier):
            made.add(replace(evaluation(), configuration=PLAN.configuration(CARDS[0], PLAN.recipes[0], 1)))
        for recipe in PLAN.recipes:
            configuration = PLAN.configuration(CARDS[0], recipe, 1)
            made.add(replace(evaluation(latency=slower, size=slower), configuration=configuration))
        made.prepare(PLAN.configurations())
        assert isinstance(made.sampler, AdvisorSampler)
        study = optuna.create_study(directions=["maximize", "minimize", "minimize"], sampler=made.sampler)
        order.append(study.ask({**made.sampler.distributions}).params["card"])
    assert order == CARDS


def asked_of_dashboard(file: Path, address: str) -> Any:
    """Return what the dashboard of a journal answers."""
    import optuna_dashboard  # it loads scikit-learn, which no other test of this module needs

    request: dict[str, Any] = {"PATH_INFO": address}
    setup_testing_defaults(request)
    return json.loads(b"".join(optuna_dashboard.wsgi(open_journal(file))(request, lambda *_: None)))


def test_a_study_opens_in_the_dashboard_with_objectives_parameters_and_reasons(tmp_path: Path) -> None:
    plan = planned(Catalogue.load().select(["mobilenet_v2_1.0_224"]), ("float32", "int8"), (1,), ("head",), RUNTIME)
    kept = study(tmp_path / "study.journal", plan)
    done, skipped = kept.ask(), kept.ask()
    assert skipped is not None
    kept.tell(result(done))
    kept.tell(Evaluation(skipped, Status.SKIPPED, reason="it cannot", stage="compress"))
    (summary,) = asked_of_dashboard(tmp_path / "study.journal", "/api/studies")["study_summaries"]
    shown = asked_of_dashboard(tmp_path / "study.journal", f"/api/studies/{summary['study_id']}")
    assert summary["directions"] == ["maximize", "minimize", "minimize"]
    assert shown["objective_names"] == ["accuracy", "latency", "size"]
    first, second = shown["trials"]
    assert (first["state"], second["state"]) == ("Complete", "Pruned")
    assert len(first["values"]) == 3
    assert {each["param_external_value"] for each in first["params"]} >= {done.card, done.compression}
    assert {each["key"]: each["value"] for each in second["user_attrs"]}["reason"] == "it cannot"
