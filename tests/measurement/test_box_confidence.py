"""Calibrated scores of found boxes, and thresholds with a guarantee."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import Guarantees, Shares
from advisor.measurement import ScoreCalibration
from advisor.measurement._box_confidence import PRECISION, RECALL, BoxAnswers

BATCH = 1.0  # As many new images as there are


def drawn(images: int, each: int, seed: int = 0, alike: bool = False, slope: float = 1.0) -> BoxAnswers:
    """Boxes whose scores have a known calibration; ``alike``: those of one image are all right or all wrong."""
    draw = np.random.default_rng(seed)
    scores = draw.uniform(0.05, 0.95, images * each)
    likely = ScoreCalibration(slope, 0.0).of(scores)
    numbers = np.repeat(np.arange(images), each)
    if alike:
        scores = np.repeat(scores[:images], each)
        right = np.repeat(draw.random(images) < scores[::each], each)
    else:
        right = draw.random(len(scores)) < likely
    hits = np.bincount(numbers[right], minlength=images)
    return BoxAnswers(scores, right, numbers, hits + (np.arange(images) % 5 == 0))  # some true boxes are missed


def test_boxes_that_are_right_by_chance_alone_count_as_about_one_each() -> None:
    assert drawn(200, 10).apart > 0.85


def test_boxes_that_are_all_right_or_all_wrong_in_an_image_count_as_one() -> None:
    assert drawn(100, 5, alike=True).apart == pytest.approx(1 / 5)


@pytest.mark.parametrize("one", [drawn(1, 5), drawn(4, 1), BoxAnswers(*(np.zeros(0),) * 3, np.array([2]))])
def test_too_few_boxes_or_images_to_tell_count_as_one_each(one: BoxAnswers) -> None:
    assert BoxAnswers(one.scores, one.right.astype(bool), one.images.astype(int), one.true).apart == 1.0


def test_the_calibration_finds_the_slope_by_which_logits_are_too_small() -> None:
    found = drawn(300, 10, slope=2.5).fit_calibration()
    assert found.slope == pytest.approx(2.5, rel=0.1)
    assert found.offset == pytest.approx(0.0, abs=0.15)


def test_calibrated_scores_stay_as_they_are_in_95_of_100_cases() -> None:
    changed = [drawn(40, 4, seed).fit_calibration() != (1.0, 0.0) for seed in range(50)]
    assert sum(changed) <= 2.5 + 3 * np.sqrt(50 * 0.05 * 0.95)


def test_without_a_box_nothing_is_calibrated() -> None:
    assert drawn(0, 0).fit_calibration() == (1.0, 0.0)


@given(st.floats(0.4, 4.0), st.floats(-3, 3), st.lists(st.floats(0.01, 0.99), min_size=2, max_size=20))
def test_a_calibration_keeps_the_order_and_can_be_undone(slope: float, offset: float, scores: list[float]) -> None:
    own, raw = ScoreCalibration(slope, offset), np.sort(scores)
    assert (np.diff(own.of(raw)) >= 0).all()
    inside = (own.of(raw) > 1e-3) & (own.of(raw) < 1 - 1e-3)
    assert own.undone(own.of(raw))[inside] == pytest.approx(raw[inside], abs=1e-6)


def test_cross_fitting_lowers_the_error_of_scores_that_are_too_low() -> None:
    boxes = drawn(150, 8, slope=3.0)
    before, after = (boxes.calibration_error(scores) for scores in (boxes.scores, boxes.crossfit_scores()))
    assert after.high < before.low
    assert after.low <= after.value <= after.high


@settings(max_examples=20)
@given(st.integers(1, 30), st.integers(0, 1000))
def test_boxes_of_drawn_images_come_as_often_as_their_image(images: int, seed: int) -> None:
    boxes, order = drawn(images, 3), np.random.default_rng(seed).integers(0, images, images)
    found = boxes.select_images(order)
    assert len(found.scores) == 3 * images
    assert found.true.tolist() == boxes.true[order].tolist()
    assert found.scores[found.images == 0].tolist() == boxes.scores[boxes.images == order[0]].tolist()


@pytest.mark.parametrize(("kind", "alike"), [(PRECISION, False), (PRECISION, True), (RECALL, True)])
def test_a_guarantee_holds_on_new_images_in_95_of_100_cases(kind: str, alike: bool) -> None:
    wanted, kept, broken = 0.6, 0, 0
    for seed in range(50):
        own, new = (drawn(120, 4, 1000 * part + seed, alike, 2.0) for part in (1, 2))
        asked = Guarantees(**{kind: Shares(wanted)})
        score, guarantee = own.guarantee_threshold(asked, BATCH)
        if guarantee and guarantee.kept:
            kept += 1
            broken += new.complete_guarantee(score, guarantee).seen.value < wanted
    assert kept > 25
    assert broken <= 0.05 * kept + 3 * np.sqrt(0.05 * 0.95 * kept)


def test_a_share_that_no_score_reaches_is_not_kept_and_without_a_wish_there_is_no_guarantee() -> None:
    boxes = drawn(60, 4)
    for asked in (Guarantees(precision=Shares(0.99)), Guarantees(recall=Shares(0.99))):
        _, guarantee = boxes.guarantee_threshold(asked, BATCH)
        assert not guarantee.kept
    assert drawn(10, 2).guarantee_threshold(Guarantees(), BATCH) == (0.0, None)
    assert drawn(10, 2).complete_guarantee(0.5, None) is None
