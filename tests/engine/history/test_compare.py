"""What counts as a changed recommendation, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import ImageAnswers
from advisor.engine.history.compare import Comparison, ComparisonResult, compare
from advisor.engine.history.loaded_run import load_run
from tests.builders import evaluation, present
from tests.run_folders import HOST, VERSIONS, candidates, images, write_run

BEST, FAST, SMALL = candidates()


def compared(
    tmp_path: Path,
    after: Sequence[Evaluation],
    before: Sequence[Evaluation] | None = None,
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
) -> Comparison:
    one = write_run(tmp_path, before, name="before", **(first or {}))
    two = write_run(tmp_path, after, name="after", **(second or {}))
    return compare(load_run(one.path), load_run(two.path))


def with_latency(row: Evaluation, latency: float) -> Evaluation:
    other = evaluation(latency=latency)
    return replace(row, latency=other.latency, latency_p90=other.latency_p90)


def test_equal_runs_recommend_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path, candidates())
    assert found.result is ComparisonResult.SAME
    assert not found.recommends_otherwise
    assert found.differences == found.figures == ()


def test_a_pick_that_no_longer_meets_the_budget_is_a_change_with_its_reason(tmp_path: Path) -> None:
    found = compared(tmp_path, [with_latency(BEST, 60), FAST, SMALL])
    assert found.result is ComparisonResult.CHANGED
    assert found.recommends_otherwise
    assert "latency of best/head/int8@host:cpux1 20.0 ms -> 60.0 ms" in found.reason
    assert "breaks the budget: p90 latency 66.0 ms against 50.0 ms" in found.reason


def test_a_pick_that_changes_within_the_noise_is_none(tmp_path: Path) -> None:
    """At the limit a thousandth decides: the pick changes, the recommendation does not."""
    edge, other = evaluation("edge", accuracy=92, half_width=1, latency=45, p90=49.9), FAST
    over = evaluation("edge", accuracy=92, half_width=1, latency=45.1, p90=50.1)
    found = compared(tmp_path, [over, other], [edge, other])
    assert present(found.pick_after).configuration.card == "fast"
    assert found.result is ComparisonResult.NOISE
    assert not found.recommends_otherwise
    assert "not counted as a change" in found.reason


def test_a_latency_of_a_busy_machine_changes_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, [replace(with_latency(BEST, 60), contended=True), FAST, SMALL])
    assert found.result is ComparisonResult.NOISE


def test_the_same_pick_that_got_worse_is_told(tmp_path: Path) -> None:
    found = compared(tmp_path, [with_latency(BEST, 30), FAST, SMALL])
    assert found.result is ComparisonResult.WORSE
    assert found.recommends_otherwise
    assert "20.0 ms -> 30.0 ms" in found.reason


def test_the_same_pick_that_got_better_is_the_same(tmp_path: Path) -> None:
    assert compared(tmp_path, [with_latency(BEST, 10), FAST, SMALL]).result is ComparisonResult.SAME


def test_a_new_candidate_that_wins_is_a_change(tmp_path: Path) -> None:
    newer = evaluation("newer", accuracy=97, half_width=1, latency=10)
    found = compared(tmp_path, [*candidates(), newer])
    assert found.result is ComparisonResult.CHANGED
    assert "newer/head/float32@host:cpux1 is new" in found.reason


def test_a_pick_that_failed_is_a_change_with_its_reason(tmp_path: Path) -> None:
    found = compared(tmp_path, [replace(BEST, status=Status.FAILED, reason="converter crashed"), FAST, SMALL])
    assert found.result is ComparisonResult.CHANGED
    assert "converter crashed" in found.reason


def test_another_question_is_named_as_the_cause(tmp_path: Path) -> None:
    found = compared(tmp_path, candidates(), second={"request": {"budget": "10ms"}})
    assert found.result is ComparisonResult.CHANGED
    assert "budget: 50ms -> 10ms" in found.reason


def test_no_longer_meeting_the_budget_is_worse_and_meeting_it_again_a_change(tmp_path: Path) -> None:
    slow = with_latency(BEST, 80)
    assert compared(tmp_path / "a", [slow], [BEST]).result is ComparisonResult.WORSE
    assert compared(tmp_path / "b", [BEST], [slow]).result is ComparisonResult.CHANGED


def test_where_nothing_meets_the_budget_any_more_no_pick_is_claimed(tmp_path: Path) -> None:
    found = compared(tmp_path, [with_latency(BEST, 300), with_latency(FAST, 60)], [BEST, FAST])
    assert found.result is ComparisonResult.CHANGED
    assert found.reason.startswith("Nothing meets the budget; closest to the limits is fast int8")
    assert "the pick was best int8" in found.reason


def test_other_threads_are_no_other_choice(tmp_path: Path) -> None:
    one, two = (evaluation("one", threads=count, latency=8 / count) for count in (1, 2))
    assert compared(tmp_path, [one, two], [one]).result is ComparisonResult.SAME


def test_a_run_without_any_candidate_is_compared_too(tmp_path: Path) -> None:
    assert compared(tmp_path / "a", [], []).result is ComparisonResult.SAME
    assert compared(tmp_path / "b", candidates(), []).result is ComparisonResult.CHANGED


def test_everything_else_that_differs_is_named_by_topic(tmp_path: Path) -> None:
    first = {"manifest": {"weights": {"best": {"sha256": "1" * 64}}}, "dataset": images({"cat": 40, "dog": 40})}
    second = {
        "manifest": {
            "versions": {**VERSIONS, "ai-edge-litert": "2.4.0"},
            "host": {**HOST, "cpu": "another"},
            "weights": {"best": {"sha256": "2" * 64}},
            "cards": {"newer": "3" * 64},
        },
        "dataset": images({"cat": 40, "dog": 45, "<b>": 40}, "e" * 64),
    }
    found = compared(tmp_path, [FAST], [BEST, FAST], first, second)
    rows = {(row.topic, row.what): (row.before, row.after) for row in found.differences}
    assert rows["versions", "ai-edge-litert"] == ("2.3.0", "2.4.0")
    assert rows["devices", "host cpu"] == ("test processor", "another")
    assert rows["catalogue", "weights of best"] == ("1" * 16, "2" * 16)
    assert rows["candidates", "newer"] == ("not a candidate in the first run", "candidate")
    assert rows["data", "images of 'dog'"] == ("40", "45")
    assert rows["data", "images of '<b>'"] == ("", "40")
    assert rows["candidates", "best"] == ("candidate", "not a candidate in the second run")
    assert ("data", "fingerprint") in rows


def test_accuracies_on_the_same_images_are_compared_image_by_image(tmp_path: Path) -> None:
    """Intervals overlap, yet the later artefact is wrong on 20 pictures that the earlier one knew."""
    rows = [{"class": "a", "sha256": str(place)} for place in range(400)]
    runs = []
    for name, wrong in (("before", 20), ("after", 40)):
        row = evaluation("one", accuracy=100 - wrong / 4, half_width=3)
        row = replace(
            row, answers=ImageAnswers(file="answers/one.npy"), artefact="artifacts/one.tflite", artefact_sha256=name
        )
        run = write_run(tmp_path, [row], name=name)
        run.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "train": []})
        run.keep_answers("one", [1] * wrong + [0] * (400 - wrong))
        runs.append(load_run(run.path))
    found = compare(*runs)
    assert found.result is ComparisonResult.WORSE
    assert "accuracy of one/head/float32@host:cpux1 95.0 % -> 90.0 %" in found.reason


@pytest.mark.parametrize("damaged", ["manifest.json", "dataset.json", "split.json"])
def test_damaged_documents_are_compared_as_far_as_they_go(tmp_path: Path, damaged: str) -> None:
    one, two = (write_run(tmp_path, dataset=images({"a": 10})) for _ in range(2))
    (two.path / damaged).write_text('{"schema_version": 1, "versions": 3, "host": [], "pictures_per_class": "x"}')
    assert compare(load_run(one.path), load_run(two.path)).result is ComparisonResult.SAME


def test_another_execution_is_no_reason_for_a_change(tmp_path: Path) -> None:
    found = compared(tmp_path, [with_latency(BEST, 60), FAST, SMALL], second={"request": {"workers": 2}})
    assert found.result is ComparisonResult.CHANGED
    assert "workers" not in found.reason
    assert found.differences == ()


@pytest.mark.parametrize(
    "asked",
    [{"metric": "macro-f1"}, {"costs": "class,a,b\na,0,1\nb,1,0\n"}, {"objective": "robust-accuracy"}],
    ids=["metric", "costs", "objective"],
)
def test_accuracies_that_are_other_metrics_are_not_compared(tmp_path: Path, asked: dict[str, str]) -> None:
    lower = [evaluation("best", "int8", accuracy=50, half_width=1, latency=20, size=6e6), FAST, SMALL]
    first, second = {"request": {"data": "photos"}}, {"request": {"data": "photos", **asked}}
    found = compared(tmp_path, lower, candidates(), first, second)
    assert not [row for row in found.figures if row.delta.figure in ("accuracy", "holdout_accuracy", "drop")]
    assert found.result is ComparisonResult.CHANGED
    assert next(row.what for row in found.differences if row.topic == "question") in (*asked, "metric")


def test_the_figures_that_differ_are_a_table(tmp_path: Path) -> None:
    found = compared(tmp_path, [with_latency(BEST, 60), FAST, SMALL]).to_frame()
    rows = found[found["figure"] == "latency"].to_dict("records")
    assert [(row["key"], row["unit"], row["before"], row["after"], row["beyond_noise"]) for row in rows] == [
        ("best/head/int8@host:cpux1", "ms", 20.0, 60.0, True)
    ]
