import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from advisor.compression import RECIPES, Needs, RecipeInputs, recipe, require_float
from advisor.compression._recipes.base import Compressed
from advisor.compression._recipes.mixed import Deviation, FloatComparison, Mixed, OperatorChoice, count_float_work
from advisor.core import StageError, UnsupportedRecipe
from advisor.measurement import predict_arrays
from advisor.tflite import IN_FLOAT, count, quantize, read
from advisor.training import convert_to_flatbuffer
from tests.builders import must_fail
from tests.tables import with_cases
from tests.tflite.graphs import edited

MADE = [one for one in RECIPES if one.needs < Needs.TRAINING]
NAMES = [one.name for one in MADE]
CALIBRATED = [one.name for one in MADE if one.needs_calibration]


@pytest.fixture(scope="module")
def forms(float_model: bytes, photographs: np.ndarray) -> dict[str, bytes]:
    observed = RecipeInputs(photographs)
    return {one.name: one.make(float_model, observed).data for one in MADE}


@pytest.mark.parametrize("name", NAMES)
def test_every_form_answers_like_the_float_model(forms: dict[str, bytes], photographs: np.ndarray, name: str) -> None:
    floats, own = (predict_arrays(forms[form], photographs[1::2]) for form in ("float32", name))
    assert own.shape[1:] == (4,)
    assert np.abs(floats - own).mean() < (0.1 if name == "weight_int4" else 0.02)


@with_cases
def test_weights_are_stored_as_the_name_says(forms: dict[str, bytes], name: str, weights: str) -> None:
    model = read(forms[name])
    expanded = {op.outputs[0]: op.inputs[0] for op in model.operators if op.name == "DEQUANTIZE"}
    kernels = [op.inputs[1] for op in model.operators if op.name in {"CONV_2D", "FULLY_CONNECTED"}]
    assert {model.tensors[expanded.get(index, index)].dtype for index in kernels} == {weights}


def test_each_recipe_has_its_types_and_scales(forms: dict[str, bytes], float_model: bytes) -> None:
    model = read(forms["dynamic_int8"])
    kernels = [model.tensors[op.inputs[1]] for op in model.operators if op.name == "DEPTHWISE_CONV_2D"]
    assert {row.dtype for row in kernels} == {"float32"}

    def most_scales(data: bytes) -> int:
        return max(len(row.quantization.scales) for row in read(data).tensors if row.quantization)

    assert most_scales(forms["int8_per_tensor"]) == 1
    assert most_scales(forms["int8"]) > 1
    assert forms["float32"] == float_model


@pytest.fixture(scope="module")
def distances(photographs: np.ndarray) -> bytes:
    """A network whose last operators are squares of products with constant matrices, which stay float."""
    import keras
    from keras import ops

    keras.utils.set_random_seed(0)
    image = keras.Input(photographs.shape[1:], batch_size=1, name="image")
    cells = keras.layers.Conv2D(6, 8, strides=8)(image)
    matrices = np.random.default_rng(0).normal(size=(int(np.prod(cells.shape[1:3])), 6, 6)).astype(np.float32)

    def squared(cells: Any) -> Any:
        return ops.sum(ops.square(ops.matmul(ops.reshape(cells, (-1, 1, 6)), matrices)), axis=-1)

    return convert_to_flatbuffer(keras.Model(image, {"out": keras.layers.Lambda(squared, name=IN_FLOAT)(cells)}))


@pytest.mark.integration
@pytest.mark.parametrize("name", ["int8", "int8_per_tensor", "int8_float_io"])
def test_what_is_so_named_is_float_with_8_bit_matrices(distances: bytes, photographs: np.ndarray, name: str) -> None:
    model = read(recipe(name).apply(distances, photographs))
    operators = {operator.name: operator for operator in model.operators}
    assert model.tensors[operators["CONV_2D"].outputs[0]].dtype == "int8"
    cells, matrices = operators["BATCH_MATMUL"].inputs
    stored = next(each.inputs[0] for each in model.operators if each.outputs[0] == matrices)
    assert [model.tensors[index].dtype for index in (cells, matrices, stored)] == ["float32", "float32", "int8"]
    assert model.outputs[0].dtype == "float32"
    floats, own = (_output(each, photographs[:4]) for each in (distances, recipe(name).apply(distances, photographs)))
    assert np.abs(own - floats).max() < 0.1 * floats.max()


def _output(data: bytes, images: np.ndarray) -> np.ndarray:
    run: Any = Interpreter(model_content=data).get_signature_runner()
    ((name, wanted),) = run.get_input_details().items()
    return np.stack([run(**{name: quantize(image[None], wanted)})["out"] for image in images])


@with_cases
def test_the_input_is_as_the_name_says(forms: dict[str, bytes], name: str, taken: str) -> None:
    assert read(forms[name]).inputs[0].dtype == taken


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibration_must_be_given(float_model: bytes, name: str) -> None:
    must_fail(StageError, "none were given", recipe(name).apply, float_model)


@with_cases
def test_calibration_images_must_fit(float_model: bytes, shape: list[int], value: float, message: str) -> None:
    must_fail(StageError, message, recipe("int8").apply, float_model, np.full(shape, value, np.float32))


@pytest.mark.parametrize("name", [one.name for one in RECIPES if one.needs is Needs.TRAINING])
def test_a_recipe_that_learns_is_skipped_without_images(float_model: bytes, photographs: np.ndarray, name: str) -> None:
    must_fail(UnsupportedRecipe, f"{name} needs labelled images", recipe(name).apply, float_model, photographs)


def test_nothing_is_printed(float_model: bytes, photographs: np.ndarray, capfd: pytest.CaptureFixture[str]) -> None:
    recipe("int8").apply(float_model, photographs[:4])
    recipe("float16").apply(float_model)
    shown = "".join(capfd.readouterr())
    assert "Quantiz" not in shown
    assert "%|" not in shown


def _trial(drop: float, work: int) -> OperatorChoice:
    return OperatorChoice(frozenset(), Deviation(drop, drop), work, b"")


@with_cases
def test_within_the_limit_work_counts_and_outside_it_the_drop(one: list[float], other: list[float]) -> None:
    better, worse = _trial(*one), _trial(*other)
    assert better.or_better(worse, 0.5) is worse.or_better(better, 0.5) is better


@pytest.fixture(scope="module")
def mixed(float_model: bytes, photographs: np.ndarray) -> Compressed:
    return Mixed().make(float_model, RecipeInputs(photographs[::2], max_drop_points=-1.0))


def test_what_misses_the_limit_is_left_in_float_and_the_notes_say_what_it_cost(mixed: Compressed) -> None:
    model = read(mixed.data)
    kernels = [model.tensors[op.inputs[1]].dtype for op in model.operators if op.name.endswith("CONV_2D")]
    assert not mixed.notes["within_max_drop"]
    assert len(mixed.notes["float_operators"]) == kernels.count("float32") + sum(
        "CONV_2D" not in row for row in mixed.notes["float_operators"]
    )
    notes = mixed.notes
    assert notes["drop_points"] <= notes["int8_drop_points"]
    assert 0 < notes["float_share"] <= 1
    assert notes["tried"] > 1


def test_float_work_grows_with_operators(float_model: bytes, forms: dict[str, bytes], mixed: Compressed) -> None:
    works = [count_float_work(read(data)) for data in (forms["int8"], mixed.data)]
    assert works[0] == 0
    assert works[0] < works[1]
    assert count_float_work(read(float_model)) > count(read(float_model)).macs


def test_int8_that_keeps_within_the_limit_is_kept_and_without_time_the_best_so_far(
    float_model: bytes, photographs: np.ndarray, forms: dict[str, bytes]
) -> None:
    made = recipe("mixed_int8").make(float_model, RecipeInputs(photographs, max_drop_points=100.0))
    assert made.notes["float_operators"] == []
    assert made.data == forms["int8"]
    made = recipe("mixed_int8").make(float_model, RecipeInputs(photographs[::2], max_drop_points=-1.0, seconds=0.0))
    assert made.notes["tried"] == 1


def test_a_slow_machine_makes_the_same_file(
    float_model: bytes, photographs: np.ndarray, mixed: Compressed, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(step=3600)
    clock = SimpleNamespace(monotonic=lambda: float(next(hours)))
    monkeypatch.setattr("advisor.compression._recipes.mixed.time", clock)
    assert Mixed().make(float_model, RecipeInputs(photographs[::2], max_drop_points=-1.0)) == mixed


def test_labels_make_a_loss_of_accuracy(float_model: bytes, photographs: np.ndarray, forms: dict[str, bytes]) -> None:
    judge = FloatComparison(float_model, photographs, None)
    right = tuple(int(row.argmax()) for row in judge._floats)
    form = forms["weight_int4"]
    told = FloatComparison(float_model, photographs, right)(form).drop_points
    assert told == pytest.approx(judge(form).drop_points)


@pytest.mark.parametrize("form", ["int8", "dynamic_int8", "weight_int8", "float16", "int16x8", "int8_float_io"])
@pytest.mark.parametrize("name", ["float32", "int8", "rounded"])
def test_compressed_models_are_refused(forms: dict[str, bytes], form: str, name: str) -> None:
    caught = must_fail(UnsupportedRecipe, f"{name} does not apply: .*already", recipe(name).apply, forms[form])
    assert caught.hint


def open_batch(model: Any) -> None:
    graph = model.subgraphs[0]
    graph.tensors[graph.inputs[0]].shapeSignature = [-1, 32, 32, 3]


def second_graph(model: Any) -> None:
    model.subgraphs = [model.subgraphs[0], model.subgraphs[0]]


def second_signature(model: Any) -> None:
    (first,) = model.signatureDefs
    inputs, outputs = first.inputs, first.outputs
    second = schema.SignatureDefT(signatureKey=b"train", subgraphIndex=0, inputs=inputs, outputs=outputs)
    model.signatureDefs = [first, second]


@pytest.mark.parametrize(
    ("change", "message"),
    [(open_batch, r"\(-1, 32, 32, 3\).*is open"), (second_graph, "2 graphs"), (second_signature, "'train'")],
)
def test_files_of_another_kind_are_refused(float_model: bytes, change: Callable[[Any], None], message: str) -> None:
    must_fail(UnsupportedRecipe, message, require_float, edited(float_model, change), "int8")
