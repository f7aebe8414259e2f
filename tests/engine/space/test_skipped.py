"""What the end of a search leaves unevaluated is named, card by card, and begun where the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Evaluation, Status
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.rule import Rules
from advisor.engine.scheduling.stopping import max_trials_reached
from advisor.engine.space.skipped import record_unevaluated, skip_ruled_out
from advisor.store import RunFolder
from tests.engine.plans import planned

CATALOGUE = load_catalogue()
PLAN = planned(
    cards=tuple(CATALOGUE[name] for name in ("mobilenet_v1_0.25_128", "mobilenet_v2_0.35_96")),
    recipes=("float32", "float16"),
    threads=(1, 2),
    trainings=("none",),
    runtime="ai-edge-litert==2.3.0",
)
EVALUATED, UNTOUCHED = (card.name for card in PLAN.cards)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder.create(tmp_path, "left-out")
    run.append(Evaluation(PLAN.configuration(EVALUATED, "float32", 1), Status.OK, "mobilenet_v1"))
    record_unevaluated(run, PLAN, max_trials_reached(1, 7).reason)
    return run


def test_every_card_is_evaluated_or_skipped_with_what_ended_the_search(run: RunFolder) -> None:
    rest = [e for e in run.evaluations() if e.configuration.card == UNTOUCHED]
    assert len(rest) == 4
    assert {(e.status, e.stage, e.reason) for e in rest} == {
        (Status.SKIPPED, StageName.STOP, "not started: stopped at --max-trials 1")
    }
    assert len([e for e in run.evaluations() if e.configuration.card == EVALUATED]) == 1


def test_a_run_that_goes_on_begins_them(run: RunFolder) -> None:
    assert [e.configuration.card for e in skip_ruled_out(run, PLAN, Rules(Budget()))] == [EVALUATED]


def test_nothing_is_named_twice(run: RunFolder) -> None:
    before = len(run.evaluations())
    record_unevaluated(run, PLAN, max_trials_reached(1, 7).reason)
    assert len(run.evaluations()) == before
