"""What counts as a changed recommendation, what two runs differ in, and images on which two files disagree."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core import CardFacts, ConfidenceFacts, Evaluation, ImageAnswers, Interval, Mistake, Provenance, Status
from advisor.engine import Comparison, LoadedRun
from advisor.engine._history.compare import OTHER_IMAGES, ComparisonResult
from advisor.engine._history.differences import Difference, find_differences
from advisor.engine._history.disagreements import find_disagreements
from advisor.store import RunFolder, sha256_json
from tests.builders import evaluation, present
from tests.run_folders import HOST, VERSIONS, candidates, images, write_run
from tests.tables import with_cases

BEST, FAST, SMALL = candidates()
STOPPED = {"stopped": {"why": "time_limit", "text": "stopped at the time limit of 9s"}}
NEWER = evaluation("newer", accuracy=97, half_width=1, latency=10)
FAILED = replace(BEST, status=Status.FAILED, reason="converter crashed")
CARD = "mobilenet_v2_1.0_224"
LABELS = "abba"


def compared(
    tmp_path: Path,
    after: Sequence[Evaluation],
    before: Sequence[Evaluation] | None = None,
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
) -> Comparison:
    one = write_run(tmp_path, before, name="before", **(first or {}))
    two = write_run(tmp_path, after, name="after", **(second or {}))
    return Comparison.of_runs(LoadedRun.load(one.path), LoadedRun.load(two.path))


def with_latency(row: Evaluation, latency: float) -> Evaluation:
    other = evaluation(latency=latency)
    return replace(row, latency=other.latency, latency_p90=other.latency_p90)


def test_equal_runs_recommend_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path, candidates())
    assert found.result is ComparisonResult.SAME
    assert not found.recommends_otherwise
    assert found.differences == found.figures == ()
    one, two = (evaluation("one", threads=count, latency=8 / count) for count in (1, 2))
    assert compared(tmp_path / "threads", [one, two], [one]).result is ComparisonResult.SAME
    neither = compared(tmp_path / "none", [], [])
    assert (neither.result, neither.reason) == (ComparisonResult.SAME, "Neither run has a pick.")
    assert compared(tmp_path / "first", candidates(), []).result is ComparisonResult.CHANGED


@pytest.mark.parametrize("manifest", [STOPPED, {"configurations": 3}, None], ids=["limit", "killed", "refused"])
def test_a_run_without_a_result_is_no_change(tmp_path: Path, manifest: dict[str, Any] | None) -> None:
    one, two = write_run(tmp_path, name="before"), write_run(tmp_path, [], name="after", manifest=manifest)
    if manifest is None:  # the search ended before it wrote one, for example for want of weights
        (two.path / "manifest.json").unlink()
    found = Comparison.of_runs(LoadedRun.load(one.path), LoadedRun.load(two.path))
    assert found.result is ComparisonResult.INCOMPLETE
    assert found.incomplete
    assert not found.recommends_otherwise
    assert "after ended before its first result" in found.reason


@with_cases
def test_a_change_of_the_recommendation_is_told_with_its_reason(
    tmp_path: Path, change: str, latency: float, budget: str, result: str, words: str
) -> None:
    best = replace(with_latency(BEST, latency), contended=change == "busy machine")
    rows = {"failed": [FAILED], "new candidate": [best, NEWER]}.get(change, [best])
    median, p90 = (replace(q, provenance=Provenance.PREDICTED) for q in (BEST.latency, BEST.latency_p90))
    then = replace(BEST, latency=median, latency_p90=p90)
    before = [then, FAST, SMALL] if change == "measured at last" else None
    found = compared(tmp_path, [*rows, FAST, SMALL], before, second={"request": {"budget": budget}})
    assert found.result.value == result
    assert found.recommends_otherwise is (result in (ComparisonResult.CHANGED, ComparisonResult.WORSE))
    assert all(text in found.reason for text in words.split(". "))
    if result == ComparisonResult.WORSE:
        (row,) = found.to_frame().query("figure == 'latency'").to_dict("records")
        assert list(row.values())[:6] == ["best/head/int8@host:cpux1", "latency", "ms", 20.0, 30.0, True]


def test_a_pick_that_changes_within_the_noise_is_none(tmp_path: Path) -> None:
    """At the limit a thousandth decides: the pick changes, the recommendation does not."""
    edge, other = evaluation("edge", accuracy=92, half_width=1, latency=45, p90=49.9), FAST
    over = evaluation("edge", accuracy=92, half_width=1, latency=45.1, p90=50.1)
    found = compared(tmp_path, [over, other], [edge, other])
    assert present(found.pick_after).configuration.card == "fast"
    assert found.result is ComparisonResult.NOISE
    assert not found.recommends_otherwise
    assert found.reason.startswith(f"The later run picks {FAST.describe_figures()}, and the earlier one edge ")
    assert "not counted as a change" in found.reason


def test_where_nothing_meets_the_budget_any_more_no_pick_is_claimed(tmp_path: Path) -> None:
    slow = with_latency(BEST, 80)
    assert compared(tmp_path / "a", [slow], [BEST]).result is ComparisonResult.WORSE
    assert compared(tmp_path / "b", [BEST], [slow]).result is ComparisonResult.CHANGED
    failed = [replace(row, status=Status.FAILED, reason="converter crashed") for row in candidates()]
    assert compared(tmp_path / "c", failed, second={"manifest": STOPPED}).recommends_otherwise
    found = compared(tmp_path, [with_latency(BEST, 300), with_latency(FAST, 60)], [BEST, FAST])
    assert found.result is ComparisonResult.CHANGED
    assert found.reason.startswith("Nothing meets the budget; closest to the limits is fast int8")
    assert "the pick was best int8" in found.reason


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
    free, other = (replace(FAST, card_facts=CardFacts(licence=name)) for name in ("Apache-2.0", "MIT"))
    found = compared(tmp_path, [other], [BEST, free], first, second)
    rows = {(row.topic, row.what): (row.before, row.after) for row in found.differences}
    assert rows["versions", "ai-edge-litert"] == ("2.3.0", "2.4.0")
    assert rows["devices", "host cpu"] == ("test processor", "another")
    assert rows["catalogue", "weights of best"] == ("1" * 16, "2" * 16)
    assert rows["catalogue", "licence of fast"] == ("Apache-2.0", "MIT")
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
        file = {"artefact": "artifacts/one.tflite", "artefact_sha256": sha256_json(name)}
        row = replace(row, answers=ImageAnswers(file="answers/one.npy"), **file)
        run = write_run(tmp_path, [row], name=name)
        run.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "train": []})
        run.keep_answers("one", [1] * wrong + [0] * (400 - wrong))
        runs.append(LoadedRun.load(run.path))
    found = Comparison.of_runs(*runs)
    assert found.result is ComparisonResult.WORSE
    assert "accuracy of one float32 on 1 thread 95.0 % -> 90.0 %" in found.reason


@pytest.mark.parametrize("damaged", ["manifest.json", "dataset.json", "split.json"])
def test_damaged_documents_are_compared_as_far_as_they_go(tmp_path: Path, damaged: str) -> None:
    one, two = (write_run(tmp_path, dataset=images({"a": 10})) for _ in range(2))
    (two.path / damaged).write_text('{"schema_version": 1, "versions": 3, "host": [], "pictures_per_class": "x"}')
    assert Comparison.of_runs(LoadedRun.load(one.path), LoadedRun.load(two.path)).result is ComparisonResult.SAME


@with_cases
def test_accuracies_that_are_other_metrics_are_not_compared(tmp_path: Path, asked: dict[str, str]) -> None:
    lower = [evaluation("best", "int8", accuracy=50, half_width=1, latency=20, size=6e6), FAST, SMALL]
    first, second = {"request": {"data": "photos"}}, {"request": {"data": "photos", **asked}}
    found = compared(tmp_path, lower, candidates(), first, second)
    assert not [row for row in found.figures if row.delta.figure in ("accuracy", "holdout_accuracy", "drop")]
    assert found.result is ComparisonResult.CHANGED
    assert next(row.what for row in found.differences if row.topic == "question") in (*asked, "metric")


def test_accuracies_on_different_images_are_not_compared_and_the_answer_says_so(tmp_path: Path) -> None:
    runs = []
    for name, accuracy in (("before", 92), ("after", 70)):
        run = write_run(tmp_path, [evaluation("best", accuracy=accuracy, half_width=1)], name=name)
        run.write_json("split.json", {"classes": ["a"], "validation": [{"class": "a", "sha256": name}]})
        runs.append(LoadedRun.load(run.path))
    found = Comparison.of_runs(*runs)
    assert (found.result, OTHER_IMAGES in found.reason) == (ComparisonResult.SAME, True)


@with_cases
def test_another_question_is_a_difference_and_another_way_to_the_answer_is_none(
    tmp_path: Path, options: dict[str, Any], what: str, before: str, after: str
) -> None:
    how = {"workers": 2, "sampler": "tpe", "time_limit": "10min", "max_trials": 5, "remeasure": True}
    how |= {"executor": "ray", "storage": "sqlite", "mirror": "weights", "out": "elsewhere", "offline": True}
    runs = (write_run(tmp_path, name="before"), write_run(tmp_path, name="after", request={**options, **how}))
    found = find_differences(*(LoadedRun.load(run.path) for run in runs))
    assert found == (Difference("question", what, before, after),)


def test_a_card_that_only_one_run_considered_is_one_difference(tmp_path: Path) -> None:
    facts = CardFacts(params=3e6, licence="Apache-2.0", input_size=224)
    one, other = (replace(evaluation(name), card_facts=facts) for name in ("one", "other"))
    manifests = [
        {"cards": dict.fromkeys(cards, "1" * 64), "weights": {name: {"sha256": "2" * 64} for name in cards}}
        for cards in (("one", "other"), ("one",))
    ]
    left = replace(evaluation("one", "int8"), status=Status.SKIPPED, stage="stop", reason="stopped at 4min")
    before = write_run(tmp_path, [one, other, left], manifest=manifests[0], name="before")
    after = write_run(tmp_path, [one, replace(left, reason="stopped at 5min")], manifest=manifests[1], name="after")
    found = find_differences(LoadedRun.load(before.path), LoadedRun.load(after.path))
    assert found == (Difference("candidates", "other", "candidate", "not a candidate in the second run"),)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with the same four images in its validation part and its hold-out."""
    folder = RunFolder.create(tmp_path, "x")
    rows = [{"class": name, "sha256": f"{place}" * 64, "path": f"{place}.jpg"} for place, name in enumerate(LABELS)]
    folder.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "holdout": rows})
    return folder


def answered(run: RunFolder, form: str, answers: list[int], card: str = CARD) -> Evaluation:
    """Return a file that gave these answers on validation."""
    file = run.keep_answers(f"{card}-{form}", answers)
    return replace(evaluation(card, form), answers=ImageAnswers(file=file))


def held_out(run: RunFolder, judged: Evaluation, answers: list[int], *mistakes: Mistake) -> Evaluation:
    """Return a file that gave these answers on the hold-out too."""
    file = run.keep_answers(f"holdout-{judged.configuration.compression}", answers)
    none = Interval(0.0, 0.0, 0.0)
    confidence = ConfidenceFacts(1.0, none, none, none, none, mistakes=mistakes)
    return replace(judged, holdout_answers=ImageAnswers(file=file, confidence=confidence))


def test_what_only_float32_answers_right_comes_first_and_what_both_do_is_left_out(run: RunFolder) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [1, 1, 1, 2])
    found = present(find_disagreements(run, [pick, floats], pick))
    assert [(row.path, row.label, row.compressed.label, row.floats.label) for row in found.rows] == [
        ("2.jpg", 1, 0, 1),
        ("0.jpg", 0, 0, 1),
        ("3.jpg", 0, 1, 2),
    ]
    assert found.sentence == (
        "int8 and float32 differ on 3 of 4 validation images: int8 is right on 1 of them, float32 on 1."
    )
    same = present(find_disagreements(run, [pick, answered(run, "float32", [0, 1, 0, 1])], pick))
    assert same.sentence == "int8 and float32 give the same answer on each of 4 validation images."


def test_the_hold_out_decides_where_both_ran_there(run: RunFolder) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [1, 1, 1, 2])
    mistake = Mistake("3.jpg", "3" * 64, 0, 1, 0.9)
    pick, judged = held_out(run, pick, [0, 1, 1, 1], mistake), held_out(run, floats, [0, 1, 1, 0])
    both, one = (present(find_disagreements(run, [pick, other], pick)) for other in (judged, floats))
    assert (both.part, [row.path for row in both.rows]) == ("hold-out", ["3.jpg"])
    assert [(row.compressed.probability, row.floats.probability) for row in both.rows] == [(0.9, None)]
    assert one.part == "validation"


@with_cases
def test_where_no_labels_of_these_images_or_no_split_are_kept_there_are_none(
    run: RunFolder, values: list[Any], kind: str
) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [1, 1, 1, 0])
    np.save(run.path / floats.answers.file, np.array(values, kind))
    assert find_disagreements(run, [pick, floats], pick) is None
    np.save(run.path / floats.answers.file, np.array([1, 1, 1, 0]))
    assert find_disagreements(run, [pick, floats], pick) is not None
    assert find_disagreements(run, [floats], floats) is find_disagreements(run, [floats], None) is None
    assert find_disagreements(run, [answered(run, "float32", [1, 1, 1, 0], "another")], pick) is None
    run.write_json("split.json", {"classes": ["a"]})
    assert find_disagreements(run, [pick, floats], pick) is None
