"""The order in which evaluations are shown."""

import re
from dataclasses import replace
from itertools import pairwise

from advisor.core import Decision, Evaluation, Status
from advisor.engine import StageName
from advisor.reporting._failures import failure_blocks
from advisor.reporting._phrases import counts, funnel, rank_begun, shortlist
from tests.builders import present
from tests.reporting.views import empty_view, infeasible_view, run_view


def test_shortlist_starts_with_the_pick_holds_the_front_and_shows_a_tied_file_once() -> None:
    view = run_view()
    keys = [row.configuration.key for row in shortlist(view)]
    front = [row.configuration.key for row in view.decision.front]
    assert keys[0] == view.pick_key
    assert len(keys) == len(set(keys)) <= 10
    assert front[0] in keys
    rival = next(row for row in view.ok if row.variant not in {shown.variant for shown in shortlist(view)})
    assert rival in shortlist(view, rival)[:10], "a sentence names it"
    rows = shortlist(run_view(threads=(1, 2, 4)))
    tied = [row.configuration for row in rows[1:5]]
    assert len({(row.card, row.compression) for row in tied}) == len(tied)


def test_a_model_without_an_accuracy_is_not_said_to_miss_the_budget() -> None:
    view = run_view()
    untrained = replace(present(view.decision.pick), accuracy=None)
    rows = tuple(untrained if row.configuration.key == view.pick_key else row for row in view.evaluations)
    before, after = (re.search("(\\d+) do not", counts(each)) for each in (view, replace(view, evaluations=rows)))
    assert present(before)[1] == present(after)[1]
    assert ", 1 without an accuracy, " in counts(replace(view, evaluations=rows))
    assert counts(replace(view, manifest={"configurations": 999, "reevaluated": {}})) == counts(view)
    planned = replace(view, manifest={"configurations": len(view.evaluations) + 7})
    assert "7 were not reached. Those that were not reached have no row in" in str(failure_blocks(planned)[1])
    assert "no row" not in str(failure_blocks(view)[1])
    assert "meet the budget, " in counts(replace(view, limits=replace(view.limits, latency_ms=None)))


def test_ranked_holds_every_evaluation_once_and_failures_last() -> None:
    view = run_view()
    rows = rank_begun(view)
    assert sorted(row.configuration for row in rows) == sorted(row.configuration for row in view.evaluations)
    assert rows[0].configuration.key == view.pick_key
    assert not any(row.accuracy for row in rows[-4:])


def test_every_stage_has_its_place_whatever_the_order_of_the_evaluations_and_one_of_another_version_is_last() -> None:
    view, stages = run_view(), ["weights", *reversed(StageName)]
    rows = [row.configuration for row in view.evaluations][: len(stages)]
    stopped = tuple(
        Evaluation(configuration, Status.SKIPPED, reason="why", stage=stage)
        for configuration, stage in zip(rows, stages, strict=True)
    )
    steps = funnel(replace(view, evaluations=stopped, decision=Decision.of_evaluations(stopped, view.limits)))
    assert [step.name for step in steps] == ["planned", *StageName, "weights", "meets the budget"]
    assert [step.left for step in steps] == [*range(len(stages), -1, -1), 0]


def test_reasons_that_differ_in_the_figures_of_a_network_are_one_in_the_funnel() -> None:
    view = run_view()
    late = [replace(row, status=Status.SKIPPED, stage="promotion") for row in view.evaluations]
    rows = tuple(replace(row, reason=f"not started: no time; expected {i} %") for i, row in enumerate(late))
    steps = funnel(replace(view, evaluations=rows, decision=Decision.of_evaluations(rows, view.limits)))
    assert steps[1].reasons == (("not started: no time", len(rows)),)


def test_funnel_adds_up_from_the_plan_to_the_pick_and_says_why_candidates_left() -> None:
    steps = funnel(run_view())
    assert [steps[0].left, steps[-1].left] == [90, 1]
    assert all(before.left - after.lost == after.left for before, after in pairwise(steps))
    reasons = {step.name: step.reasons for step in steps}
    assert reasons[StageName.TIMING] == (("the child process was killed after 120 s", 2),)
    assert {reason for reason, _ in reasons["meets the budget"]} == {"over the size limit", "over the latency limit"}
    assert [(step.name, step.left) for step in funnel(infeasible_view())][-1] == ("meets the budget", 0)
    assert funnel(empty_view())[-1].left == 0
