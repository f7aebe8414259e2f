"""Confidence is chosen on validation and verified on the hold-out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog import Catalogue
from advisor.core import ConditionAccuracy, Guarantees, Interval, Provenance, Shares, ShippedThresholds, UnknownFacts
from advisor.datasets import TESTS
from advisor.engine import Captured, Images, Role, accuracy
from advisor.engine._pipeline.evaluation.confidence import MISTAKES, choose_thresholds, verify_thresholds
from advisor.engine._pipeline.evaluation.scorer import describe_unknown
from advisor.measurement import OutOfFold, fit_temperature
from advisor.measurement._calibration import apply_temperature
from advisor.measurement._class_thresholds import GUARANTEE
from tests.builders import present
from tests.engine.pipeline.boxed import two_classes

LITE0 = Catalogue.load()["efficientnet_lite0_224"]
V2 = Catalogue.load()["mobilenet_v2_1.0_224"]
ANSWERS = [(label, 0.8) for label in range(10)]
EACH = 300
"""Images of each part; every second one is of the other class."""
KNOWN = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]
LABELS = [0, 1, 1, 0]
OTHERS = [[0.1, 0.1, 0.8], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]]


def test_measured_accuracy_counts_the_right_answers_and_a_class_without_an_image_has_no_recall() -> None:
    verdict = accuracy.measure_accuracy([0, 1, 1, 0], [0, 1, 1, 1], [0, 1, 1, 1], ["a", "b"])
    assert (verdict.accuracy.value, verdict.accuracy.n) == (75.0, 4)
    assert present(verdict.drop).value == 25.0
    assert verdict.answers.per_class_recall == {"a": 1.0, "b": pytest.approx(2 / 3)}
    assert verdict.answers.confusion == ((1, 0), (1, 2))
    verdict = accuracy.measure_accuracy([0, 1], [0, 1], [0, 0], ("a", "b"))
    assert verdict.answers.per_class_recall == {"a": 0.5, "b": None}


def test_published_figures_are_quoted_for_their_own_form_alone() -> None:
    for recipe in ("float32", "float16"):
        verdict = accuracy.find_published_top1(V2, recipe, ANSWERS, ANSWERS)
        assert (verdict.accuracy.value, verdict.accuracy.provenance) == (71.8, Provenance.PUBLISHED)
        assert verdict.accuracy.source
    verdict = accuracy.find_published_top1(LITE0, "int8", ANSWERS, ANSWERS)
    assert (verdict.accuracy.value, verdict.accuracy.provenance) == (74.4, Provenance.PUBLISHED)
    verdict = accuracy.find_published_top1(V2, "int8", ANSWERS, ANSWERS)
    assert present(verdict.accuracy).provenance is Provenance.ESTIMATED


def test_changed_answers_cost_as_much_as_float_was_sure_of_them() -> None:
    floats = [(0, 0.9), (1, 0.1)]
    doubtful = accuracy.find_published_top1(V2, "int8", [(0, 0.9), (7, 0.1)], floats)
    sure = accuracy.find_published_top1(V2, "int8", [(7, 0.9), (1, 0.1)], floats)
    assert present(doubtful.accuracy).value == pytest.approx(0.9 * 71.8)
    assert present(sure.accuracy).value == pytest.approx(0.1 * 71.8)


def test_nothing_is_estimated_from_random_weights() -> None:
    assert accuracy.quote_top1(V2, "dynamic_int8").accuracy is None
    of_float = present(accuracy.quote_top1(V2, "float32").accuracy)
    assert of_float.value == 71.8


def test_robust_accuracy_is_the_mean_over_the_tests_with_each_of_them() -> None:
    right = np.ones((len(TESTS), 4))
    shares = right.copy()
    shares[0] = 0
    verdict = accuracy.compare_captured(Captured(TESTS, shares, shares), Captured(TESTS, right, right))
    assert present(verdict.accuracy).value == pytest.approx(100 * (len(TESTS) - 1) / len(TESTS))
    assert present(verdict.drop).value == pytest.approx(100 / len(TESTS))
    assert verdict.capture.by_condition[0] == ConditionAccuracy(TESTS[0][0].name, TESTS[0][1], 0.0)
    assert verdict.capture.by_condition[1].top1 == 100.0


def test_more_images_make_the_interval_of_robust_accuracy_narrower_and_right_answers_alone_leave_room() -> None:
    right = np.ones((len(TESTS), 9))
    verdict = accuracy.compare_captured(Captured(TESTS, right, right), Captured(TESTS, right, right))
    assert present(verdict.accuracy).low == pytest.approx(100 * Interval.wilson(9, 9).low)

    def width(count: int) -> float:
        shares = np.tile(np.arange(count) % 2 == 0, (len(TESTS), 1)).astype(float)
        same = Captured(TESTS, shares, shares)
        found = present(accuracy.compare_captured(same, same).accuracy)
        return present(found.high) - present(found.low)

    assert width(400) < 0.5 * width(50)


@pytest.fixture
def images() -> Images:
    return two_classes(EACH)


def scores(folder: Path, name: str, seed: int, degrees: float) -> Path:
    """Write probabilities that are true at a temperature, for labels 0, 1, 0, 1, ..."""
    draw = np.random.default_rng(seed)
    margins = draw.normal(0, 3, EACH)
    right = draw.random(EACH) < 1 / (1 + np.exp(-np.abs(margins) / degrees))
    labels = np.arange(EACH) % 2
    signs = np.where(right, 1, -1) * np.where(labels == 1, 1, -1) * np.abs(margins)
    second = 1 / (1 + np.exp(-signs))
    np.save(folder / f"{name}.npy", np.stack([1 - second, second], axis=1).astype(np.float32))
    return folder / f"{name}.npy"


def asking(precision: float | None = None, **others: Any) -> Guarantees:
    return Guarantees(Shares(precision), **others)


def test_the_temperature_lowers_the_error_of_probabilities_that_are_too_sure(tmp_path: Path, images: Images) -> None:
    facts = choose_thresholds(scores(tmp_path, "validation", 0, 3.0), images, asking())
    assert facts.temperature > 1.8
    assert facts.error.value < facts.error_before.value
    assert facts.brier.value < facts.brier_before.value
    assert facts.guaranteed == GUARANTEE


def test_thresholds_guarantee_what_was_asked_for_or_are_none(tmp_path: Path, images: Images) -> None:
    validation = scores(tmp_path, "validation", 0, 1.0)
    high, low = choose_thresholds(validation, images, asking(0.85)), choose_thresholds(validation, images, asking(0.7))
    assert high.threshold.coverage < low.threshold.coverage
    assert high.guaranteed == 0.85
    assert 0.85 <= high.reachable.precision < 0.995
    assert choose_thresholds(validation, images, asking(0.995)).by_class == {"a": None, "b": None}


def test_an_answer_that_is_none_of_the_classes_never_counts(tmp_path: Path, images: Images) -> None:
    rows = np.load(scores(tmp_path, "validation", 0, 1.0))
    wide = np.hstack([rows, np.zeros((EACH, 1), np.float32)])
    wide[:30] = (0.01, 0.0, 0.99)
    np.save(tmp_path / "wide.npy", wide)
    facts = choose_thresholds(tmp_path / "wide.npy", images, asking(0.7))
    assert facts.answered.coverage <= 0.9


def test_on_the_hold_out_the_shipped_file_is_judged_at_the_chosen_values(tmp_path: Path, images: Images) -> None:
    facts = choose_thresholds(scores(tmp_path, "validation", 0, 3.0), images, asking(0.8))
    plain = np.load(scores(tmp_path, "plain", 1, 3.0))
    shipped = tmp_path / "shipped.npy"
    np.save(shipped, apply_temperature(plain, facts.temperature))
    judged = verify_thresholds(shipped, images, facts)
    assert judged.temperature == facts.temperature
    assert judged.error.value < judged.error_before.value
    assert (judged.threshold is None) == (facts.threshold is None)
    assert (judged.threshold.score, judged.threshold.of) == (facts.threshold.score, EACH)
    assert set(judged.by_class) == {"a", "b"}


def test_mistakes_on_the_hold_out_are_kept_from_each_confusion_in_turn(tmp_path: Path, images: Images) -> None:
    facts = choose_thresholds(scores(tmp_path, "validation", 0, 1.0), images, asking())
    answers = np.arange(EACH) % 2
    answers[:60] = 1  # 30 images of the first class
    answers[-5::2] = 0  # the last three of the second class, which are the least sure
    sure = np.linspace(0.99, 0.6, EACH)
    np.save(tmp_path / "shipped.npy", np.stack([np.where(answers == column, sure, 1 - sure) for column in (0, 1)], 1))
    kept = verify_thresholds(tmp_path / "shipped.npy", images, facts).mistakes
    assert [one.label for one in kept] == [0, 1, 0, 1, 0, 1, *((MISTAKES - 6) * [0])]
    first, second = kept[:2]
    assert first.probability == pytest.approx(0.99)
    assert second.path == images.dataset.show_path(images.part(Role.HOLDOUT).paths[-5])
    assert facts.mistakes == ()


def test_a_class_has_its_own_precision_and_the_others_share_theirs(tmp_path: Path, images: Images) -> None:
    validation = scores(tmp_path, "validation", 0, 1.0)
    facts = choose_thresholds(validation, images, Guarantees(Shares(0.85, {"a": 0.7})))
    alone = choose_thresholds(validation, images, asking(0.85))
    assert facts.by_class["b"] == alone.by_class["b"] == facts.threshold
    assert facts.by_class["a"] != alone.by_class["a"]
    assert facts.thresholds.plain is not None
    assert facts.answered.images == facts.by_class["a"].images + facts.threshold.images
    assert facts.thresholds.least("a") < facts.thresholds.least("b") == facts.thresholds.plain
    judged = verify_thresholds(scores(tmp_path, "shipped", 1, 1.0), images, facts)
    assert judged.thresholds == facts.thresholds
    assert judged.answered.of == EACH


def test_a_precision_that_a_class_cannot_guarantee_says_what_it_can(tmp_path: Path, images: Images) -> None:
    facts = choose_thresholds(scores(tmp_path, "validation", 0, 1.0), images, Guarantees(Shares(None, {"a": 0.995})))
    assert facts.by_class["a"] is None
    assert 0.7 < facts.reachable_by_class["a"].precision < 0.995
    assert facts.thresholds.by_class == {}
    assert facts.answered is None


def test_recall_and_coverage_are_guaranteed_and_verified(tmp_path: Path, images: Images) -> None:
    wanted = Guarantees(recall=Shares(0.9, {"b": 0.95}), coverage=0.8)
    facts = choose_thresholds(scores(tmp_path, "validation", 0, 1.0), images, wanted)
    assert {name: one.wanted for name, one in facts.recall.items()} == {"a": 0.9, "b": 0.95}
    assert all(one.kept for one in facts.recall.values())
    assert facts.coverage.kept
    assert facts.thresholds.plain == pytest.approx(facts.coverage.at.score, abs=1e-6)
    judged = verify_thresholds(scores(tmp_path, "shipped", 1, 1.0), images, facts)
    assert judged.coverage.at.coverage == pytest.approx(0.82, abs=0.06)
    assert judged.recall["b"].recall.value > 0.92
    assert judged.curve[-1].images == EACH


def test_a_class_without_a_validation_image_has_no_threshold(tmp_path: Path, images: Images) -> None:
    empty = replace(images, dataset=replace(images.dataset, classes=("a", "b", "never")))
    rows = np.load(scores(tmp_path, "validation", 0, 1.0))
    np.save(tmp_path / "wide.npy", np.hstack([rows * 0.99, np.full((EACH, 1), 0.01, np.float32)]))
    wanted = Guarantees(Shares(None, {"never": 0.9}), Shares(None, {"never": 0.9}))
    facts = choose_thresholds(tmp_path / "wide.npy", empty, wanted)
    assert facts.by_class["never"] is None
    assert facts.reachable_by_class["never"] == (0.0, 0.0)
    assert (facts.recall["never"].guaranteed, facts.recall["never"].recall) == (0.0, None)
    assert facts.thresholds == ShippedThresholds()
    assert verify_thresholds(tmp_path / "wide.npy", empty, facts).recall["never"].flagged == 1.0


def fold_answers(folder: Path, seed: int = 2) -> Path:
    return scores(folder, "folds", seed, 1.0)


def of_folds(answers: Path, images: Images, floats: Path) -> OutOfFold:
    return OutOfFold(answers, images.part(Role.TRAIN).labels, floats)


def test_out_of_fold_answers_guarantee_more_and_choose_the_temperature_too(tmp_path: Path, images: Images) -> None:
    validation = scores(tmp_path, "validation", 0, 1.0)
    alone = choose_thresholds(validation, images, asking(0.85))
    more = choose_thresholds(validation, images, asking(0.85), of_folds(fold_answers(tmp_path), images, validation))
    assert (alone.threshold.of, more.threshold.of) == (EACH, 2 * EACH)
    assert more.threshold.coverage > alone.threshold.coverage - 0.05
    assert len(more.curve) == len(alone.curve)
    assert more.answered.of == EACH
    sharp = scores(tmp_path, "folds", 2, 3.0)
    more = choose_thresholds(validation, images, asking(0.85), of_folds(sharp, images, validation))
    assert more.temperature > alone.temperature
    rows, labels = np.load(validation), np.asarray(images.part(Role.VALIDATION).labels)
    every = np.vstack([np.load(sharp), rows]), np.append(images.part(Role.TRAIN).labels, labels)
    assert more.temperature == fit_temperature(*every)


def test_a_file_that_answers_unlike_the_float_head_is_judged_by_validation(tmp_path: Path, images: Images) -> None:
    validation, other = scores(tmp_path, "validation", 0, 1.0), scores(tmp_path, "floats", 3, 1.0)
    found = choose_thresholds(validation, images, asking(0.85), of_folds(fold_answers(tmp_path), images, other))
    assert found == choose_thresholds(validation, images, asking(0.85))


def test_images_in_no_fold_have_no_answer(tmp_path: Path, images: Images) -> None:
    validation = scores(tmp_path, "validation", 0, 1.0)
    rows = np.load(fold_answers(tmp_path))
    rows[::3] = 0
    np.save(tmp_path / "folds.npy", rows)
    found = choose_thresholds(validation, images, asking(0.85), of_folds(tmp_path / "folds.npy", images, validation))
    assert found.threshold.of == EACH + EACH * 2 // 3


def kept(rows: list[list[float]], path: Path) -> Path:
    np.save(path, np.array(rows, np.float32))
    return path


def test_known_images_answered_as_unknown_are_not_kept_and_other_things_are_found_and_ranked(tmp_path: Path) -> None:
    found = describe_unknown(UnknownFacts(), kept(KNOWN, tmp_path / "known.npy"), LABELS, None)
    assert present(found.kept).value == pytest.approx(3 / 4)
    assert (present(found.precision).value, found.others) == (pytest.approx(2 / 3), None)
    none = describe_unknown(UnknownFacts(), kept([[0.1, 0.9]], tmp_path / "known.npy"), [0], None)
    assert none.precision is None
    others = kept(OTHERS, tmp_path / "others.npy")
    found = present(describe_unknown(UnknownFacts(), kept(KNOWN, tmp_path / "known.npy"), LABELS, others).others)
    assert (found.images, found.found.value) == (4, pytest.approx(3 / 4))
    assert found.auroc.value == pytest.approx(15 / 16)
