"""The order in which evaluations are shown."""

from __future__ import annotations

from advisor.reporting.phrases import ranked, shortlist
from tests.reporting.views import run_view


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
