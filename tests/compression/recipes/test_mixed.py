from __future__ import annotations

import itertools

import numpy as np
import pytest

from advisor.compression.recipes import recipe
from advisor.compression.recipes.base import Compressed, RecipeInputs
from advisor.compression.recipes.mixed import (
    Deviation,
    FloatComparison,
    Mixed,
    OperatorChoice,
    comparison_for,
    float_work,
)
from advisor.tflite.macs import count
from advisor.tflite.model import read


def _trial(drop: float, work: int) -> OperatorChoice:
    return OperatorChoice(frozenset(), Deviation(drop, drop), work, b"")


@pytest.mark.parametrize(
    ("one", "other"),
    [((0.4, 1), (0.1, 2)), ((0.4, 9), (0.6, 1)), ((0.6, 9), (0.7, 1)), ((0.1, 1), (0.2, 1))],
)
def test_within_the_limit_work_counts_and_outside_it_the_drop(one: tuple[float, int], other: tuple[float, int]) -> None:
    assert _trial(*one).better_than(_trial(*other), 0.5)
    assert not _trial(*other).better_than(_trial(*one), 0.5)


@pytest.fixture(scope="module")
def mixed(float_model: bytes, photographs: np.ndarray) -> Compressed:
    return Mixed().make(float_model, RecipeInputs(photographs, max_drop_points=-1.0, seconds=20))


def test_what_misses_the_limit_is_left_in_float(mixed: Compressed) -> None:
    model = read(mixed.data)
    kernels = [model.tensors[op.inputs[1]].dtype for op in model.operators if op.name.endswith("CONV_2D")]
    assert not mixed.notes["within_max_drop"]
    assert len(mixed.notes["float_operators"]) == kernels.count("float32") + sum(
        "CONV_2D" not in row for row in mixed.notes["float_operators"]
    )


def test_the_notes_say_what_it_cost(mixed: Compressed) -> None:
    notes = mixed.notes
    assert notes["drop_points"] <= notes["int8_drop_points"]
    assert 0 < notes["float_share"] <= 1
    assert notes["tried"] > 1


def test_float_work_is_none_in_int8_and_grows_with_the_operators_in_float(
    float_model: bytes, photographs: np.ndarray, mixed: Compressed
) -> None:
    works = [float_work(read(data)) for data in (recipe("int8").apply(float_model, photographs), mixed.data)]
    assert works[0] == 0
    assert works[0] < works[1]
    assert float_work(read(float_model)) > count(read(float_model)).macs


def test_int8_that_keeps_within_the_limit_is_kept(float_model: bytes, photographs: np.ndarray) -> None:
    made = recipe("mixed_int8").make(float_model, RecipeInputs(photographs, max_drop_points=100.0))
    assert made.notes["float_operators"] == []
    assert made.data == recipe("int8").apply(float_model, photographs)


def test_a_slow_machine_makes_the_same_file(
    float_model: bytes, photographs: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = RecipeInputs(photographs, max_drop_points=-1.0)
    usual = Mixed().make(float_model, inputs)
    hours = itertools.count(step=3600)
    monkeypatch.setattr("time.monotonic", lambda: float(next(hours)))
    slow = Mixed().make(float_model, inputs)
    assert slow == usual
    assert slow.notes["tried"] > 1


def test_without_time_the_best_so_far_is_given(float_model: bytes, photographs: np.ndarray) -> None:
    made = recipe("mixed_int8").make(float_model, RecipeInputs(photographs, max_drop_points=-1.0, seconds=0.0))
    assert made.notes["tried"] == 1


def test_the_float_model_loses_nothing_against_itself(float_model: bytes, photographs: np.ndarray) -> None:
    deviation = comparison_for(float_model, RecipeInputs(photographs))(float_model)
    assert deviation == Deviation(0.0, 0.0)


def test_labels_make_it_a_loss_of_accuracy(float_model: bytes, photographs: np.ndarray) -> None:
    judge = FloatComparison(float_model, photographs, None)
    right = tuple(int(row.argmax()) for row in judge._floats)
    form = recipe("weight_int4").apply(float_model, photographs)
    told = FloatComparison(float_model, photographs, right)(form).drop_points
    assert told == pytest.approx(judge(form).drop_points)
