"""Recall and confusion of single classes, and the images with the most errors as small copies."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import (
    BoxFacts,
    ClassBoxes,
    Evaluation,
    HoldoutPart,
    ImageAnswers,
    Interval,
    JudgedBox,
    JudgedImage,
    Metric,
    UsageError,
)
from advisor.datasets._thumbnails import BYTES_PER_PIXEL
from advisor.reporting._class_counts import are_few, count_judged_images, find_weakest
from advisor.reporting._classes import (
    DIFFERENCES,
    HEATMAP_CLASSES,
    PairDifference,
    add_ranges,
    compare_confusions,
    compute_lost_recall,
    compute_recalls,
    list_confused_pairs,
    make_heatmap,
)
from advisor.reporting._pages import DRAWN, LOOKS, SIDE, data_uri, photos
from tests.builders import evaluation, must_fail, present
from tests.datasets.folders import image
from tests.reporting import views
from tests.tables import with_cases

LABELS = ("cat", "dog", "owl")
ANSWERS = ImageAnswers(confusion=((8, 2, 0), (1, 9, 0), (5, 0, 5)))
PICK = ((8, 2, 0), (1, 9, 0), (5, 0, 5))
RUNNER_UP = ((8, 0, 2), (1, 9, 0), (1, 1, 8))
NAMES = ("cat", "dog")
SEEN, MISSED = JudgedBox(0, 0.1, 0.2, 0.5, 0.6, 1.0, True), JudgedBox(1, 0.0, 0.0, 0.5, 0.5, 1.0, False)
RIGHT, WRONG = JudgedBox(0, 0.1, 0.2, 0.5, 0.6, 0.876, True), JudgedBox(0, 0.0, 0.0, 0.5, 0.5, 0.5, False)
THUMBNAIL = 132


def test_recall_comes_with_its_interval_and_count() -> None:
    found = {recall.label: recall for recall in compute_recalls(ANSWERS, LABELS)}
    assert found["cat"].recall == 80.0
    assert found["cat"].n == 10
    assert found["cat"].low == pytest.approx(49.0, abs=0.1)  # Wilson's interval of 8 in 10
    assert found["cat"].high == pytest.approx(94.3, abs=0.1)
    shares = compute_recalls(ImageAnswers(per_class_recall={"cat": 0.25}), LABELS)  # without counts
    assert [(recall.label, recall.recall, recall.low) for recall in shares] == [("cat", 25.0, None)]
    figures = {"AP of cat": replace(evaluation().accuracy, value=25.0, low=9.0, high=60.0, n=7)}
    (cat,) = add_ranges(shares, ImageAnswers(figures=figures), "AP")
    assert (cat.recall, cat.low, cat.high, cat.n) == (25.0, 9.0, 60.0, 7)
    (cat,) = compute_recalls(ImageAnswers(per_class_recall={"cat": 0.8}), LABELS, {"cat": 10})
    assert (cat.n, cat.low, cat.high) == (10, found["cat"].low, found["cat"].high), "the split has the number"
    answers = ImageAnswers(confusion=((6, 2, 0), (2, 8, 0), (0, 0, 0)))
    assert [recall.precision for recall in compute_recalls(answers, LABELS)] == [75.0, 80.0, None]


def test_the_split_tells_how_many_images_of_a_class_judged_the_file() -> None:
    held_out, shares = dict(zip(views.CLASSES, (40, 4, 2, 1, 1, 0), strict=True)), (0.9, 1.0, 0.0, 1.0, 0.0, None)
    view = views.with_dataset(views.judged_view(), held_out_per_class=held_out)
    answers = ImageAnswers(dict(zip(views.CLASSES, shares, strict=True)))
    judged = replace(present(view.decision.pick), holdout_answers=answers)
    for part, n, counts in ((None, 48, held_out), (HoldoutPart(24, 48), 24, (20, 2, 1, 1, 0, 0)), (None, 47, {})):
        file = replace(judged, holdout_part=part, holdout_accuracy=replace(judged.holdout_accuracy, n=n))
        if isinstance(counts, tuple):
            counts = dict(zip(views.CLASSES, counts, strict=True))
            file = replace(file, holdout_answers=replace(answers, per_class_recall={views.CLASSES[0]: 0.9}))
        assert count_judged_images(view, file) == counts


def test_a_class_loses_what_the_form_recognises_less_than_float32() -> None:
    floats, form = ImageAnswers({"a": 0.9, "b": 0.5, "c": None}), ImageAnswers({"a": 0.8, "b": 0.6, "c": None})
    assert compute_lost_recall(floats, form) == pytest.approx({"a": 10.0, "b": -10.0})


@pytest.mark.parametrize(
    "answers", [ImageAnswers(confusion=((0, 0), (1, 9))), ImageAnswers(per_class_recall={"a": None, "b": 0.9})]
)
def test_class_without_images_has_no_recall_and_is_not_the_weakest(answers: ImageAnswers) -> None:
    found = compute_recalls(answers, ("a", "b"))
    assert (found[0].recall, found[0].low, found[0].n) == (None, None, 0)
    assert find_weakest(found) is found[1]
    assert find_weakest(found[:1]) is None
    assert find_weakest([replace(found[1], n=9), replace(found[1], recall=100.0)]) is None, "few images, no error"
    assert [are_few([replace(found[1], n=count)] * 2) for count in (9, 10, None)] == [True, False, False]


def test_classes_of_a_detector_have_precision_recall_and_error_of_counting() -> None:
    boxes = BoxFacts(0.4, 0.5, {"a": ClassBoxes(4, 5, 0.6, 0.75, 0.25, 0.2)})
    first, second = compute_recalls(ImageAnswers({"a": 0.9, "b": None}, boxes=boxes), ("a", "b"))
    assert (first.recall, first.shares) == (90.0, (0.6, 0.75, 0.25, 0.2))
    assert (second.recall, second.n, second.shares) == (None, 0, (None,) * 4)
    assert (first.guesses_better, second.guesses_better) == (True, False)


def test_most_frequent_mistake_is_first_and_the_heat_map_holds_shares_of_the_true_class() -> None:
    pairs = list_confused_pairs(ANSWERS, LABELS)
    expected = [("owl", "cat", 5, 50.0), ("cat", "dog", 2, 20.0), ("dog", "cat", 1, 10.0)]
    assert [(pair.true, pair.answer, pair.count, pair.share) for pair in pairs] == expected
    assert make_heatmap(ANSWERS, LABELS).shares[2] == (50, 0, 50)


@pytest.mark.parametrize("table", [((1, 0), (0, 1)), ((1, 0, 0), (0, 1, 0), (0, 0, -1)), ((1,), (0, 1), (1,))])
def test_a_matrix_that_is_not_one_of_these_classes_is_refused(table: tuple[tuple[int, ...], ...]) -> None:
    must_fail(UsageError, "not 3 x 3", compute_recalls, ImageAnswers(confusion=table), LABELS)
    must_fail(UsageError, "not 3 x 3", compare_confusions, judged(PICK), judged(table), LABELS)


def judged(
    validation: tuple[tuple[int, ...], ...] | None = None, holdout: tuple[tuple[int, ...], ...] | None = None
) -> Evaluation:
    """Return a file with these matrices."""
    on_holdout = ImageAnswers(confusion=holdout) if holdout else None
    return replace(evaluation("one"), answers=ImageAnswers(confusion=validation), holdout_answers=on_holdout)


def test_counts_of_the_runner_up_are_compared_with_those_of_the_pick_on_the_same_images() -> None:
    found = compare_confusions(judged(PICK), judged(RUNNER_UP), LABELS)
    assert (found.pick.counts, found.runner_up.counts) == (PICK, RUNNER_UP)
    assert found.changes == ((0, -2, 2), (0, 0, 0), (-4, 1, 3))
    assert found.sentence == "Of 30 validation images, the pick answers 8 wrongly, and the runner-up 5."
    rows = (PairDifference("owl", "cat", 5, 1), PairDifference("cat", "dog", 2, 0), PairDifference("cat", "owl", 0, 2))
    assert found.pairs == rows, "the largest difference first, and no single image"
    found = compare_confusions(judged(PICK), judged(((1, 0, 0),) * 3), LABELS)
    assert (found.runner_up, found.wrong, found.sentence) == (None, (8,), "")


def test_the_hold_out_counts_where_both_ran_there_or_the_pick_alone_is_shown() -> None:
    both = compare_confusions(judged(PICK, RUNNER_UP), judged(PICK, PICK), LABELS)
    one = compare_confusions(judged(PICK, RUNNER_UP), judged(PICK), LABELS)
    alone = compare_confusions(judged(PICK, RUNNER_UP), None, LABELS)
    assert (both.part, one.part, alone.part) == ("hold-out", "validation", "hold-out")
    assert (alone.pick.counts, alone.runner_up) == (RUNNER_UP, None)
    assert compare_confusions(judged(), judged(PICK), LABELS) is None


def test_many_classes_have_no_matrix_but_still_their_mistakes_and_differences() -> None:
    size = HEATMAP_CLASSES + 1
    labels = tuple(map(str, range(size)))
    pick = tuple(tuple(9 if row == column else 3 for column in range(size)) for row in range(size))
    other = tuple(tuple(row[1:] + row[:1]) for row in pick)
    found = compare_confusions(judged(pick), judged(other), labels)
    assert (found.pick, found.runner_up, len(found.pairs)) == (None, None, DIFFERENCES)
    answers = ImageAnswers(confusion=pick)
    assert make_heatmap(answers, labels) is None
    assert list_confused_pairs(answers, labels)[0].count == 3


def drawn(folder: Path, size: tuple[int, int] = (800, 400), **changes: object) -> JudgedImage:
    """Draw an image, and return it with its boxes."""
    Image.new("RGB", size, (90, 120, 150)).save(folder / "a.jpg")
    sha256 = hashlib.sha256((folder / "a.jpg").read_bytes()).hexdigest()
    image = JudgedImage("a.jpg", sha256, *size, 0.5, (SEEN, MISSED), (RIGHT, WRONG))
    return replace(image, **changes)


def test_an_image_is_embedded_small_with_its_result_in_words_and_each_kind_of_box_in_its_look(tmp_path: Path) -> None:
    (photo,) = photos([drawn(tmp_path)], tmp_path, NAMES)
    assert photo.image == data_uri(tmp_path / "a.jpg", SIDE)
    assert (photo.name, photo.width, photo.height, photo.f1) == ("a.jpg", 800, 400, 0.5)
    assert photo.result == "1 of 2 true boxes found; missed: 1 dog; wrong: 1 cat"
    assert photos([drawn(tmp_path)], tmp_path, ())[0].result.endswith(" found; missed: 1 class 1; wrong: 1 class 0")
    assert photos([drawn(tmp_path, true=(SEEN,), found=(RIGHT,))], None, NAMES)[0].result == "1 of 1 true box found"
    assert [box.look for box in photo.boxes] == list(LOOKS) == ["seen", "missed", "right", "wrong"]
    seen, right = photo.boxes[0], photo.boxes[2]
    assert (seen.left, seen.top, seen.width, seen.height) == pytest.approx((160, 40, 320, 160))
    assert (seen.title, right.title) == ("cat: true box, found", "cat: found, right, score 0.88")


@with_cases
def test_what_is_not_the_judged_file_is_not_shown(tmp_path: Path, changes: dict[str, str]) -> None:
    assert photos([drawn(tmp_path, **changes)], tmp_path, NAMES)[0].image == ""


def test_only_so_many_boxes_are_drawn_and_a_centre_has_a_small_square_around_it(tmp_path: Path) -> None:
    centre = JudgedBox(0, 0.5, 0.25, 0.5, 0.25, 0.9, True)
    images = [drawn(tmp_path, true=(SEEN,) * (DRAWN + 5), found=()), drawn(tmp_path, true=(), found=(centre,))]
    many, one = photos(images, tmp_path, NAMES)
    assert len(many.boxes) == DRAWN
    assert many.result.startswith(f"{DRAWN + 5} of {DRAWN + 5} ")
    (mark,) = one.boxes
    assert mark.width == mark.height > 2
    assert (mark.left + mark.width / 2, mark.top + mark.height / 2) == pytest.approx((200, 200))


def test_a_thumbnail_is_small_and_carries_nothing_but_pixels(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "a secret place"
    image(3, (800, 400)).save(tmp_path / "a.jpg", exif=exif)
    uri = data_uri(tmp_path / "a.jpg", THUMBNAIL)
    assert uri.startswith("data:image/jpeg;base64,")
    stored = base64.b64decode(uri.split(",", 1)[1])
    assert b"secret" not in stored
    with Image.open(BytesIO(stored)) as thumbnail:
        assert thumbnail.size == (THUMBNAIL, THUMBNAIL // 2)


@pytest.mark.parametrize("mode", ["P", "LA", "CMYK", "1"])
def test_every_mode_gives_a_thumbnail_and_what_cannot_be_read_none(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    image(3).convert(mode).save(path)
    assert data_uri(path, THUMBNAIL)
    path.write_bytes(b"\xff\xd8\xff no")
    assert data_uri(path, THUMBNAIL) == data_uri(tmp_path / "gone.jpg", THUMBNAIL) == ""


def test_a_thumbnail_of_noise_has_a_lower_quality_and_stays_small(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    stored = base64.b64decode(data_uri(tmp_path / "a.png", THUMBNAIL).split(",", 1)[1])
    assert 0 < len(stored) <= BYTES_PER_PIXEL * THUMBNAIL**2


@pytest.mark.parametrize("groups", [(), [place // 5 for place in range(200)]], ids=["single", "groups"])
def test_the_range_of_a_class_counts_groups_as_that_of_all_images_does(groups: Sequence[int]) -> None:
    right = [place % 40 >= 5 for place in range(200)]  # whole groups are wrong
    top1 = Interval.share_of(right, groups).as_percent(200, "the hold-out")
    (cat, _) = compute_recalls(
        ImageAnswers(confusion=((45, 5), (20, 130)), metrics={Metric.TOP1: top1}), ("cat", "dog")
    )
    plain = Interval.wilson(45, 50)
    assert cat.recall == 90.0
    if groups:
        assert present(cat.low) < 100 * plain.low - 5
    else:
        assert (cat.low, cat.high) == (100 * plain.low, 100 * plain.high)
