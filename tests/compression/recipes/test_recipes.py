from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from advisor.compression.recipes import RECIPES, recipe
from advisor.compression.recipes.base import Needs
from advisor.core.errors import StageError, UnsupportedRecipe, UsageError
from advisor.measurement.accuracy import predict_arrays
from advisor.tflite.model import read

MADE = [one for one in RECIPES if one.needs < Needs.TRAINING]
NAMES = [one.name for one in MADE]
CALIBRATED = [one.name for one in MADE if one.needs_calibration]


@pytest.fixture(scope="module")
def forms(float_model: bytes, photographs: np.ndarray) -> dict[str, bytes]:
    return {one.name: one.apply(float_model, photographs) for one in MADE}


@pytest.mark.parametrize("name", NAMES)
def test_every_form_answers_like_the_float_model(
    forms: dict[str, bytes], photographs: np.ndarray, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("forms")
    answers = []
    for form in ("float32", name):
        (folder / f"{form}.tflite").write_bytes(forms[form])
        answers.append(predict_arrays(folder / f"{form}.tflite", photographs))
    assert np.abs(answers[0] - answers[1]).mean() < (0.1 if name == "weight_int4" else 0.02)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("float32", "float32"), ("float16", "float16"), ("dynamic_int8", "int8"), ("weight_int8", "int8"),
        ("int8", "int8"), ("weight_int4", "int4"), ("int8_per_tensor", "int8"), ("int16x8", "int8"),
        ("int8_float_io", "int8"), ("rounded", "float32"),
    ],
)  # fmt: skip
def test_weights_are_stored_as_the_name_says(forms: dict[str, bytes], name: str, weights: str) -> None:
    model = read(forms[name])
    expanded = {op.outputs[0]: op.inputs[0] for op in model.operators if op.name == "DEQUANTIZE"}
    kernels = [op.inputs[1] for op in model.operators if op.name in {"CONV_2D", "FULLY_CONNECTED"}]
    assert {model.tensors[expanded.get(index, index)].dtype for index in kernels} == {weights}


def test_dynamic_int8_leaves_depthwise_kernels_float(forms: dict[str, bytes]) -> None:
    model = read(forms["dynamic_int8"])
    kernels = [model.tensors[op.inputs[1]] for op in model.operators if op.name == "DEPTHWISE_CONV_2D"]
    assert {row.dtype for row in kernels} == {"float32"}


@pytest.mark.parametrize(
    ("name", "taken"),
    [("int8", "int8"), ("int8_float_io", "float32"), ("int16x8", "int16"), ("dynamic_int8", "float32")],
)
def test_the_input_is_as_the_name_says(forms: dict[str, bytes], name: str, taken: str) -> None:
    assert read(forms[name]).inputs[0].dtype == taken


def test_per_tensor_has_one_scale_a_kernel(forms: dict[str, bytes]) -> None:
    def most_scales(data: bytes) -> int:
        return max(len(row.quantization.scales) for row in read(data).tensors if row.quantization)

    assert most_scales(forms["int8_per_tensor"]) == 1
    assert most_scales(forms["int8"]) > 1


def test_float32_is_the_file_itself(forms: dict[str, bytes], float_model: bytes) -> None:
    assert forms["float32"] == float_model


@pytest.mark.parametrize("name", NAMES)
def test_equal_inputs_give_equal_bytes(
    forms: dict[str, bytes], float_model: bytes, photographs: np.ndarray, name: str
) -> None:
    assert recipe(name).apply(float_model, photographs) == forms[name]


@pytest.mark.parametrize("name", NAMES)
def test_forms_load_in_the_runtime(forms: dict[str, bytes], name: str) -> None:
    interpreter = Interpreter(model_content=forms[name])
    interpreter.allocate_tensors()
    assert tuple(interpreter.get_output_details()[0]["shape"]) == (1, 4)


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibration_must_be_given(float_model: bytes, name: str) -> None:
    with pytest.raises(StageError, match="none were given"):
        recipe(name).apply(float_model)


@pytest.mark.parametrize("shape", [(4, 16, 16, 3), (4, 32, 32, 1)])
def test_calibration_images_must_fit(float_model: bytes, shape: tuple[int, ...]) -> None:
    with pytest.raises(StageError, match="the model takes"):
        recipe("int8").apply(float_model, np.zeros(shape, np.float32))


def test_calibration_images_must_be_finite(float_model: bytes) -> None:
    with pytest.raises(StageError, match="finite"):
        recipe("int8").apply(float_model, np.full((4, 32, 32, 3), np.nan, np.float32))


@pytest.mark.parametrize("name", [one.name for one in RECIPES if one.needs is Needs.TRAINING])
def test_a_recipe_that_learns_is_skipped_without_images(float_model: bytes, photographs: np.ndarray, name: str) -> None:
    with pytest.raises(UnsupportedRecipe, match=f"{name} needs labelled images"):
        recipe(name).apply(float_model, photographs)


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'float16'"):
        recipe("flaot16")


def test_nothing_is_printed(float_model: bytes, photographs: np.ndarray, capfd: pytest.CaptureFixture[str]) -> None:
    recipe("int8").apply(float_model, np.concatenate([photographs] * 2))
    recipe("float16").apply(float_model)
    shown = "".join(capfd.readouterr())
    assert "Quantiz" not in shown
    assert "%|" not in shown
