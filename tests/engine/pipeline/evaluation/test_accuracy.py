from __future__ import annotations

import numpy as np
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.evaluation_facts import ConditionAccuracy
from advisor.core.quantity import Provenance
from advisor.core.statistics import wilson
from advisor.datasets.capture import TESTS
from advisor.engine.pipeline.evaluation.accuracy import measured, published, quoted, robust
from tests.builders import present

LITE0 = load_catalogue()["efficientnet_lite0_224"]
V2 = load_catalogue()["mobilenet_v2_1.0_224"]
ANSWERS = [(label, 0.8) for label in range(10)]


def test_measured_accuracy_counts_the_right_answers() -> None:
    verdict = measured([0, 1, 1, 0], [0, 1, 1, 1], [0, 1, 1, 1], ["a", "b"])
    assert verdict.accuracy is not None
    assert (verdict.accuracy.value, verdict.accuracy.n) == (75.0, 4)
    assert present(verdict.drop).value == 25.0
    assert verdict.answers.per_class_recall == {"a": 1.0, "b": pytest.approx(2 / 3)}
    assert verdict.answers.confusion == ((1, 0), (1, 2))


def test_a_class_without_an_image_has_no_recall() -> None:
    verdict = measured([0, 1], [0, 1], [0, 0], ("a", "b"))
    assert verdict.answers.per_class_recall == {"a": 0.5, "b": None}


def test_a_form_that_answers_as_float_has_dropped_nothing() -> None:
    verdict = measured([0, 1], [0, 1], [0, 0], ["a", "b"])
    assert verdict.drop is not None
    assert (verdict.drop.value, verdict.drop.low, verdict.drop.high) == (0, 0, 0)


def test_float_forms_quote_the_published_figure() -> None:
    for recipe in ("float32", "float16"):
        verdict = published(V2, recipe, ANSWERS, ANSWERS)
        assert verdict.accuracy is not None
        assert (verdict.accuracy.value, verdict.accuracy.provenance) == (71.8, Provenance.PUBLISHED)
        assert verdict.accuracy.source


def test_a_published_figure_of_the_quantized_form_is_quoted() -> None:
    verdict = published(LITE0, "int8", ANSWERS, ANSWERS)
    assert verdict.accuracy is not None
    assert (verdict.accuracy.value, verdict.accuracy.provenance) == (74.4, Provenance.PUBLISHED)


def test_a_figure_of_quantization_aware_training_is_not_taken_for_quantized_weights() -> None:
    verdict = published(V2, "int8", ANSWERS, ANSWERS)
    assert present(verdict.accuracy).provenance is Provenance.ESTIMATED


def test_changed_answers_cost_as_much_as_float_was_sure_of_them() -> None:
    floats = [(0, 0.9), (1, 0.1)]
    doubtful, sure = (
        published(V2, "int8", [(0, 0.9), (7, 0.1)], floats),
        published(V2, "int8", [(7, 0.9), (1, 0.1)], floats),
    )
    assert present(doubtful.accuracy).value == pytest.approx(0.9 * 71.8)
    assert present(sure.accuracy).value == pytest.approx(0.1 * 71.8)


def test_nothing_is_estimated_from_random_weights() -> None:
    assert quoted(V2, "dynamic_int8").accuracy is None
    of_float = present(quoted(V2, "float32").accuracy)
    assert of_float.value == 71.8


def test_robust_accuracy_is_the_mean_over_the_tests_with_each_of_them() -> None:
    labels = [0, 1, 1, 0]
    right = np.tile(np.array(labels), (len(TESTS), 1))
    answers = right.copy()
    answers[0] = 1 - answers[0]
    verdict = robust(answers, right, labels)
    assert present(verdict.accuracy).value == pytest.approx(100 * (len(TESTS) - 1) / len(TESTS))
    assert present(verdict.drop).value == pytest.approx(100 / len(TESTS))
    assert verdict.capture.by_condition[0] == ConditionAccuracy(TESTS[0][0].name, TESTS[0][1], 0.0)
    assert verdict.capture.by_condition[1].top1 == 100.0


def test_nothing_but_right_answers_leave_room_for_what_was_not_seen() -> None:
    right = np.zeros((len(TESTS), 9), int)
    verdict = robust(right, right, [0] * 9)
    assert present(verdict.accuracy).low == pytest.approx(100 * wilson(9, 9).low)
