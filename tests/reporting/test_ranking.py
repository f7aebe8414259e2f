"""What is shown first, and the funnel."""

from __future__ import annotations

from itertools import pairwise

from advisor.reporting.ranking import funnel, ranked, shortlist
from tests.reporting.views import empty_view, infeasible_view, run_view


def test_shortlist_starts_with_the_pick_and_holds_both_ends_of_the_front() -> None:
    view = run_view()
    keys = [row.configuration.key for row in shortlist(view)]
    front = [row.configuration.key for row in view.decision.front]

    assert keys[0] == view.pick_key
    assert len(keys) == len(set(keys)) <= 10
    assert front[0] in keys


def test_shortlist_shows_a_tied_file_once_whatever_its_threads() -> None:
    rows = shortlist(run_view(threads=(1, 2, 4)))
    tied = [row.configuration for row in rows[1:5]]

    assert len({(row.card, row.compression) for row in tied}) == len(tied)


def test_ranked_holds_every_evaluation_once_and_failures_last() -> None:
    view = run_view()
    rows = ranked(view)

    assert sorted(row.configuration for row in rows) == sorted(row.configuration for row in view.evaluations)
    assert rows[0].configuration.key == view.pick_key
    assert not any(row.accuracy for row in rows[-4:])


def test_funnel_adds_up_from_the_plan_to_the_pick() -> None:
    steps = funnel(run_view())

    assert [steps[0].left, steps[-1].left] == [90, 1]
    assert all(before.left - after.lost == after.left for before, after in pairwise(steps))


def test_funnel_says_why_candidates_left() -> None:
    steps = {step.name: step for step in funnel(run_view())}

    assert steps["latency"].reasons == (("the child process was killed after 120 s", 2),)
    assert {reason for reason, _ in steps["meets the budget"].reasons} == {
        "over the size limit",
        "over the latency limit",
    }


def test_funnel_of_an_infeasible_run_ends_at_the_budget() -> None:
    assert [(step.name, step.left) for step in funnel(infeasible_view())][-1] == ("meets the budget", 0)


def test_funnel_of_a_run_in_which_all_failed_ends_empty() -> None:
    assert funnel(empty_view())[-1].left == 0
