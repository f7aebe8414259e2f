"""Accuracy of found objects, by the boxes of the user's images."""

from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from advisor.core import (
    BoxFacts,
    BoxGuarantee,
    BoxScores,
    ClassBoxes,
    Decision,
    Guarantees,
    ImageAnswers,
    Interval,
    JudgedBox,
    Limits,
    Provenance,
    Quantity,
    Shares,
)
from advisor.datasets import STAYING
from advisor.engine import AccuracyVerdict, Images, Question, Role, Scored
from advisor.engine._pipeline.evaluation.accuracy import CAPTURED_HOLDOUT, compare_captured
from advisor.measurement import Detections
from advisor.store import RunFolder
from advisor.tasks._counting import COUNTING
from advisor.tasks._judge import HELD_OUT, VALIDATED
from advisor.tasks.detection import DETECTION
from advisor.tasks.detection._judging import WORST, ByBoxes, ByCentres, Criterion, Detected
from tests.builders import evaluation
from tests.engine.pipeline.boxed import CAT, DOG, SIZE, boxed_images, save_found

save_all = Detections.save_all
IMAGES = boxed_images()
BY_BOXES = ByBoxes()


def judge_by(by: Criterion) -> Detected:
    return Detected((DETECTION if by is BY_BOXES else COUNTING).metric, by)


def measured(own: Path, floats: Path, images: Images, by: Criterion = BY_BOXES) -> tuple[AccuracyVerdict, list[float]]:
    """Return the verdict on a file, and the share of each image as it is kept."""
    run = RunFolder.create(Path(mkdtemp(dir=own.parent)), "run")
    verdict, kept = judge_by(by).verdict(Scored(own, floats), images, "answers/net.npy")
    assert verdict.answers.file == "answers/net.npy"
    stored = np.load(run.path / run.keep_answers("net", kept[verdict.answers.file]))
    assert stored.dtype == np.float32
    return verdict, stored.tolist()


def held_out(
    own: Path, images: Images, by: Criterion = BY_BOXES, threshold: float | None = None
) -> tuple[Quantity, ImageAnswers]:
    """Return the accuracy on the hold-out and the answers, at the threshold of validation; none is kept in a file."""
    chosen = ImageAnswers(boxes=None if threshold is None else BoxFacts(threshold, None, {}))
    judged, kept = judge_by(by).held_out(replace(evaluation(), answers=chosen), own, images, "answers/net.npy")
    assert (judged.holdout_answers.file, kept, judged.accuracy) == ("", {}, evaluation().accuracy)
    return judged.holdout_accuracy, judged.holdout_answers


def compared(
    folder: Path, own: tuple[int, ...], floats: tuple[int, ...] = (), images: Images = IMAGES
) -> tuple[AccuracyVerdict, list[float]]:
    """Compare a file with its float32 file; each finds all boxes but those of some validation images."""
    paths = [
        save_found(folder / f"{name}.npz", images, Role.VALIDATION, missed)
        for name, missed in (("own", own), ("float", floats))
    ]
    return measured(*paths, images)


def test_a_file_that_finds_everything_is_right_in_every_image(tmp_path: Path) -> None:
    verdict, shares = compared(tmp_path, ())
    assert (verdict.accuracy.value, verdict.accuracy.unit, verdict.accuracy.n) == (100.0, "%", 4)
    assert (verdict.accuracy.provenance, verdict.accuracy.source) == (Provenance.MEASURED, f"mAP@0.5 {VALIDATED}")
    assert verdict.answers.per_class_recall == {"cat": 1.0, "dog": 1.0}
    assert verdict.answers.confusion is None
    assert shares == [1.0] * 4


def test_a_file_loses_the_small_objects_that_its_float_file_finds(tmp_path: Path) -> None:
    cats = tuple((0, top, 0.1, top + 0.02, 0.12) for top in (0.1, 0.2, 0.3))
    images = boxed_images([(*cats, DOG, (1, 0.1, 0.5, 0.4, 0.9))] * 12)
    floats = save_found(tmp_path / "float.npz", images, Role.VALIDATION)
    own = tmp_path / "own.npz"
    save_all(own, [found.relabel_boxes({1: 1}) for found in Detections.load_all(floats)])  # no cat, which are small
    answers = measured(own, floats, images)[0].answers
    facts = answers.boxes
    small, large = facts.by_size
    assert (small.least, small.below, small.true, small.recall, small.lost) == (0.0, 0.025, 12, 0.0, 1.0)
    assert (large.least, large.below, large.true, large.recall, large.lost) == (0.025, 1.0, 8, 1.0, 0.0)
    assert small.lost_interval[0] > 0 >= large.lost_interval[0]
    figures = {name: figure.value for name, figure in answers.metrics.items()}
    assert figures == {"map": 50.0, "map-small": 0.0, "map-medium": 100.0}
    judge = replace(judge_by(BY_BOXES), drops=("map-small", "map-medium"))
    answers = judge.verdict(Scored(own, floats), images, "answers/net.npy")[0].answers
    assert {name: lost.value for name, lost in answers.metric_drops.items()} == {"map-small": 100.0, "map-medium": 0.0}
    limits = Limits(max_metric_drops=(("map-medium", 5.0), ("map-small", 5.0)))
    decision = Decision.of_evaluations([replace(evaluation(), answers=answers)], limits)
    assert "drop of mAP of small objects 100.0 points against 5.0 points" in decision.reason
    assert decision.relaxations[0].text.startswith("map-small drop 5.0 points -> 100.0 points admits")
    assert Decision.of_evaluations(
        [replace(evaluation(), answers=answers)], Limits(max_metric_drops=(("map-medium", 5.0),))
    ).feasible


def test_what_a_file_misses_lowers_the_precision_of_its_class(tmp_path: Path) -> None:
    verdict, shares = compared(tmp_path, own=(0,))  # a cat of four
    by_class = verdict.answers.per_class_recall
    assert by_class == {"cat": pytest.approx(76 / 101), "dog": 1.0}  # COCO reads precision at 101 recalls
    assert verdict.accuracy.value == pytest.approx(50 * (76 / 101 + 1))
    assert 0 <= verdict.accuracy.low < verdict.accuracy.value < verdict.accuracy.high <= 100
    assert min(shares) == shares[0]
    assert sum(shares) / 4 == pytest.approx(verdict.accuracy.value / 100)


def test_the_drop_is_the_precision_that_is_lost_against_the_float_file(tmp_path: Path) -> None:
    worse = compared(tmp_path, own=(0, 1), floats=(0,))[0]
    floats = compared(tmp_path, own=(0,))[0]
    assert worse.drop.value == pytest.approx(floats.accuracy.value - worse.accuracy.value, abs=1e-4)
    assert worse.drop.value > 10
    assert (worse.drop.unit, worse.drop.n) == ("points", 4)


def test_the_hold_out_has_its_own_precision(tmp_path: Path) -> None:
    path = save_found(tmp_path / "own.npz", IMAGES, Role.HOLDOUT, missed=(0, 1, 2, 3))
    found, answers = held_out(path, IMAGES)
    assert (found.value, found.unit, found.n, found.source) == (0.0, "%", 4, f"mAP@0.5 {HELD_OUT}")
    assert answers.per_class_recall == {"cat": 0.0, "dog": 0.0}
    assert answers.boxes is None, "without a threshold boxes are not counted"


def test_a_class_without_a_box_in_a_part_has_no_precision_there(tmp_path: Path) -> None:
    images = boxed_images([(CAT, DOG)] * 8 + [(CAT,)] * 4)
    found, answers = held_out(save_found(tmp_path / "own.npz", images, Role.HOLDOUT), images)
    assert answers.per_class_recall == {"cat": 1.0, "dog": None}
    assert found.value == 100.0


def scored(folder: Path, images: Images, *rows: tuple[float, ...]) -> Path:
    """Write that the cat of the first hold-out images was found with some scores, and nothing else."""
    found = [
        Detections(
            np.array([CAT[1:]] * len(one), np.float32).reshape(-1, 4),
            np.zeros(len(one), np.int64),
            np.array(one, np.float32),
        )
        for one in (*rows, *[()] * (len(images.part(Role.HOLDOUT).paths) - len(rows)))
    ]
    save_all(folder / "scored.npz", found)
    return folder / "scored.npz"


def at(path: Path, images: Images, threshold: float) -> BoxFacts:
    return held_out(path, images, threshold=threshold)[1].boxes


def test_the_threshold_is_chosen_on_the_validation_part(tmp_path: Path) -> None:
    boxes = compared(tmp_path, ())[0].answers.boxes
    assert boxes.threshold == 0.5  # all boxes have a score of 1, and no score is below 0
    assert (boxes.coco, boxes.coco_interval) == (1.0, (pytest.approx(0.51, abs=0.01), 1.0))
    assert boxes.by_class["cat"] == ClassBoxes(4, 4, 1.0, 1.0, 0.0, 0.0)
    assert boxes.worst == ()


def test_boxes_of_the_hold_out_are_counted_from_the_threshold_on(tmp_path: Path) -> None:
    images = boxed_images([(CAT,)] * 12)
    path = scored(tmp_path, images, (0.9,), (0.8, 0.7), (0.3,))
    assert at(path, images, 0.5).by_class == {
        "cat": ClassBoxes(4, 3, pytest.approx(2 / 3), 0.5, pytest.approx(3 / 4), 0.0),  # one too many, two missed
        "dog": ClassBoxes(0, 0, None, None, None),
    }
    assert at(path, images, 0.2).by_class["cat"].count_error == pytest.approx(2 / 4)


def test_the_images_of_the_hold_out_with_the_lowest_f1_are_kept_with_their_boxes(tmp_path: Path) -> None:
    images = boxed_images([(CAT,)] * 10 + [(CAT, DOG), (CAT,)])
    worst = at(scored(tmp_path, images, (0.9,), (0.9, 0.8), (0.9,)), images, 0.5).worst
    expected = [("11.jpg", 0.0), ("9.jpg", pytest.approx(2 / 3)), ("10.jpg", pytest.approx(2 / 3)), ("8.jpg", 1.0)]
    assert [(one.path, one.f1) for one in worst] == expected
    missed, doubled = worst[0], worst[1]
    assert (missed.sha256, (missed.width, missed.height)) == ("11", SIZE)
    assert (missed.true, missed.found) == ((JudgedBox(*CAT, 1.0, False),), ())
    assert [(box.score, box.matched) for box in doubled.found] == [(0.9, True), (0.8, False)]


def test_of_many_images_ten_are_kept_those_with_more_errors_first(tmp_path: Path) -> None:
    images = boxed_images([(CAT,)] * 12)
    split = replace(images.split, holdout=tuple(range(12)), train=(), validation=())
    images = replace(images, split=split, boxes=boxed_images([(CAT,)] * 11 + [(CAT, DOG)]).boxes)
    worst = at(scored(tmp_path, images), images, 0.5).worst
    assert len(worst) == WORST == 10
    assert [one.path for one in worst[:2]] == ["11.jpg", "0.jpg"]


def test_of_centres_a_mark_inside_the_box_counts_and_its_size_does_not(tmp_path: Path) -> None:
    whole = save_found(tmp_path / "whole.npz", IMAGES, Role.HOLDOUT)
    found = Detections.load_all(whole)
    middles = [np.tile((one.boxes[:, :2] + one.boxes[:, 2:]) / 2, 2) for one in found]
    save_all(tmp_path / "marks.npz", [replace(one, boxes=marks) for one, marks in zip(found, middles, strict=True)])
    by_boxes, _ = held_out(tmp_path / "marks.npz", IMAGES)
    by_centres, answers = held_out(tmp_path / "marks.npz", IMAGES, ByCentres(), 0.5)
    assert (by_boxes.value, by_centres.value) == (0.0, 100.0)
    assert by_centres.source == f"F1 {HELD_OUT}"
    assert answers.boxes.coco is None
    assert answers.boxes.coco_interval is None
    assert answers.boxes.by_class["cat"] == ClassBoxes(4, 4, 1.0, 1.0, 0.0, 0.0)


def test_of_centres_a_file_that_misses_objects_loses_f1_against_float(tmp_path: Path) -> None:
    own, floats = (save_found(tmp_path / f"{n}.npz", IMAGES, Role.VALIDATION, m) for n, m in ((0, (0,)), (1, ())))
    verdict, shares = measured(own, floats, IMAGES, ByCentres())
    assert verdict.accuracy.value == pytest.approx(50 * (6 / 7 + 1))  # three of four cats, and all dogs
    assert verdict.drop.value == pytest.approx(100 - verdict.accuracy.value, abs=1e-4)
    assert sum(shares) / 4 == pytest.approx(verdict.accuracy.value / 100)


def test_a_detector_that_was_trained_here_has_calibrated_scores_and_a_guarantee(tmp_path: Path) -> None:
    own = save_found(tmp_path / "own.npz", IMAGES, Role.VALIDATION)
    judge = Detected(DETECTION.metric, BY_BOXES, Guarantees(recall=Shares(0.5)))
    boxes = judge.verdict(Scored(own, own), IMAGES, "answers/net.npy")[0].answers.boxes
    assert boxes.guarantee == BoxGuarantee("recall", 0.5, True, boxes.guarantee.seen)
    assert boxes.guarantee.seen.value == 1.0
    assert (boxes.scores.slope, boxes.scores.offset) == (1.0, 0.0), "four boxes do not show that scores are too low"
    taken = judge.verdict(Scored(own, own, trained=False), IMAGES, "answers/own.npy")[0].answers.boxes
    assert (taken.scores, taken.guarantee) == (None, boxes.guarantee)
    nothing = save_found(tmp_path / "nothing.npz", IMAGES, Role.VALIDATION, range(4))
    empty, _ = judge.verdict(Scored(nothing, nothing), IMAGES, "answers/nothing.npy")
    assert (empty.accuracy.value, empty.answers.boxes.scores) == (0.0, None), "no box says how far scores are right"


def test_the_hold_out_shows_the_guarantee_and_the_scores_before_their_calibration(tmp_path: Path) -> None:
    scores = BoxScores(2.0, 0.0, Interval(0.1, 0.0, 0.2), Interval(0.2, 0.1, 0.3))
    asked = BoxGuarantee("precision", 0.9, True)
    chosen = ImageAnswers(boxes=BoxFacts(0.4, None, {}, scores=scores, guarantee=asked))
    own = save_found(tmp_path / "own.npz", IMAGES, Role.HOLDOUT)
    judge = Detected(DETECTION.metric, BY_BOXES, Guarantees(precision=Shares(0.9)))
    judged, _ = judge.held_out(replace(evaluation(), answers=chosen), own, IMAGES)
    found = judged.holdout_answers.boxes
    assert found.guarantee.seen.value == 1.0
    assert (found.scores.slope, found.scores.offset) == (2.0, 0.0)
    assert found.scores.error_before.value > found.scores.error.value
    nothing = save_found(tmp_path / "nothing.npz", IMAGES, Role.HOLDOUT, range(4))
    judged, _ = judge.held_out(replace(evaluation(), answers=chosen), nothing, IMAGES)
    assert judged.holdout_answers.boxes.scores is None


def test_each_capture_condition_has_its_precision_and_the_mean_an_interval(tmp_path: Path) -> None:
    true = [Detections.of_true_boxes(rows) for rows in IMAGES.part(Role.CAPTURED).objects]
    nothing = Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))
    dark = len(STAYING) - 1  # the last condition hides everything
    save_all(tmp_path / "own.npz", [nothing if test == dark else one for one in true for test in range(len(STAYING))])
    own = DETECTION.judge(Question()).captured(tmp_path / "own.npz", IMAGES, Role.CAPTURED)
    verdict = compare_captured(own, own, CAPTURED_HOLDOUT)
    found, mean = verdict.capture, verdict.accuracy
    assert [(row.condition, row.strength) for row in found.by_condition] == [(one.name, at) for one, at in STAYING]
    assert [row.top1 for row in found.by_condition] == pytest.approx([100.0] * dark + [0.0])
    assert mean.value == pytest.approx(100 * dark / len(STAYING))
    assert mean.source == "mAP@0.5 hold-out of --data under capture conditions, run in LiteRT"


def test_images_without_an_object_say_nothing_about_capture_conditions(tmp_path: Path) -> None:
    images = boxed_images([(CAT, DOG)] * 8 + [()] * 4)
    save_found(tmp_path / "one.npz", images, Role.CAPTURED)
    save_all(tmp_path / "own.npz", [one for one in Detections.load_all(tmp_path / "one.npz") for _ in STAYING])
    own = DETECTION.judge(Question()).captured(tmp_path / "own.npz", images, Role.CAPTURED)
    assert compare_captured(own, own) == AccuracyVerdict(None, None)
