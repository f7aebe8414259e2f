from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from advisor.catalog import run
from advisor.compression import Grids, RecipeInputs, recipe, round_dense
from advisor.compression._diagnosis.running import InspectableModel
from advisor.compression._quantization import observe as observing
from advisor.compression._quantization.correction import correct_model
from advisor.compression._quantization.grid import Grid, cluster_weights, spread_errors
from advisor.compression._quantization.layers import Layer, find_layers
from advisor.compression._quantization.observe import (
    LEVELS,
    Activation,
    Observation,
    Observer,
    observe_activations,
    widen_for_pixels,
)
from advisor.compression._quantization.prepared import PreparedModel, prepare_all
from advisor.compression._recipes import measure_deflated
from advisor.compression._recipes.byte_grids import BYTES
from advisor.core import StageError
from advisor.measurement import predict_arrays
from advisor.tflite import read, unpack
from tests.builders import must_fail
from tests.tflite.graphs import Graph, with_constant
from tests.tflite.test_surgery import padded_pooling

kernels = arrays(np.float64, (3, 2, 2, 4), elements=st.floats(-100, 100))
grids = st.builds(Grid, bits=st.sampled_from([4, 8, 10]), per_channel=st.booleans(), power_of_two=st.booleans())
kernels_of_grid = arrays(np.float32, (4, 6), elements=st.floats(-10, 10, width=32))
values = arrays(np.float32, (30, 2), elements=st.floats(-1000, 1000, width=32))
PLACES = 1000


@given(kernels, grids)
def test_there_are_as_few_values_as_steps_and_weights_move_by_half_a_step(kernel: np.ndarray, grid: Grid) -> None:
    rounded = grid.round(kernel, axis=0)
    groups = rounded.reshape(3, -1) if grid.per_channel else rounded.reshape(1, -1)
    assert all(len(np.unique(group)) <= 2**grid.bits for group in groups)
    largest = np.abs(kernel).max(axis=(1, 2, 3), keepdims=True) if grid.per_channel else np.abs(kernel).max()
    step = largest / (2 ** (grid.bits - 1) - 1) * (2 if grid.power_of_two else 1)
    assert (np.abs(grid.round(kernel, axis=0) - kernel) <= step / 2 + 1e-9).all()


@given(kernels)
def test_steps_go_by_what_is_usual_but_never_need_more_bits(kernel: np.ndarray) -> None:
    grid = Grid(8, power_of_two=True, in_deviation=5.9)
    usual = np.sqrt(np.square(kernel).mean(axis=(1, 2, 3), keepdims=True))
    step = grid.compute_steps(kernel, axis=0)
    assert (step >= usual / 5.9 / 1.5).all()
    assert (np.exp2(np.rint(np.log2(step))) == step).all()
    assert (np.abs(kernel) <= (2**7 - 1) * step * (1 + 1e-9)).all()


def _activations(data: bytes, photographs: np.ndarray) -> np.ndarray:
    """The pooled features, which stand before the head and its softmax."""
    pooled = next(op.outputs[0] for op in read(data).operators if op.name == "MEAN")
    model, rows = InspectableModel(data, "model"), []
    for image in photographs:
        model(image)
        rows.append(model.read(pooled).reshape(-1).copy())
    return np.stack(rows)


@pytest.mark.parametrize("grid", [Grid(4), Grid(6), Grid(6, per_channel=False)])
def test_corrected_biases_bring_features_near_float(float_model: bytes, photographs: np.ndarray, grid: Grid) -> None:
    corrected = correct_model(float_model, Grids(grid, grid), observe_activations(float_model, photographs[::2]))
    biases_of_old = unpack(corrected)
    for tensor, old in zip(biases_of_old.subgraphs[0].tensors, read(float_model).tensors, strict=True):
        if old.is_constant and len(old.shape) == 1 and old.dtype == "float32":
            biases_of_old.buffers[tensor.buffer].data = np.frombuffer(old.buffer, np.uint8)
    errors = [
        np.square(_activations(float_model, photographs[1::2]) - _activations(data, photographs[1::2])).mean()
        for data in (corrected, biases_of_old.pack())
    ]
    assert errors[0] < errors[1]


def test_a_finer_grid_than_float_changes_nothing_and_nan_fails(float_model: bytes, photographs: np.ndarray) -> None:
    changed = correct_model(float_model, Grids(Grid(30), Grid(30)), observe_activations(float_model, photographs))
    found, expected = (_activations(model, photographs) for model in (changed, float_model))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    must_fail(StageError, "not finite", observe_activations, float_model, np.full_like(photographs[:1], np.inf))


@pytest.mark.parametrize("lowest", [np.finfo(np.float32).min, -np.inf])
def test_margins_that_never_win_a_maximum_take_no_steps_from_8_bits(lowest: float) -> None:
    data = padded_pooling(lowest=lowest)
    images = np.random.default_rng(0).normal(size=(4, 4, 6, 3)).astype(np.float32)
    made = recipe("int8").make(data, RecipeInputs(calibration=images)).data
    results = [run(file, images[:1])["result"].ravel() for file in (made, data)]
    assert np.corrcoef(results)[0, 1] > 0.999


def test_depthwise_kernels_can_be_left_alone(float_model: bytes, photographs: np.ndarray) -> None:
    before = read(float_model)
    after = read(correct_model(float_model, Grids(Grid(4), None), observe_activations(float_model, photographs)))
    for operator in before.operators:
        if operator.name in {"DEPTHWISE_CONV_2D", "CONV_2D"}:
            same = before.tensors[operator.inputs[1]].buffer == after.tensors[operator.inputs[1]].buffer
            assert same == (operator.name == "DEPTHWISE_CONV_2D")


def test_the_rounded_file_keeps_its_size_and_deflates_far_better(float_model: bytes, photographs: np.ndarray) -> None:
    rounded = recipe("rounded").apply(float_model, photographs)
    assert abs(len(rounded) - len(float_model)) < 2000
    assert measure_deflated(rounded) < 0.5 * measure_deflated(float_model)


@pytest.mark.parametrize(("name", "stored_as"), [("int8", "<i4"), ("int16x8", "<i8")])
@pytest.mark.parametrize("value", [2.0, 40.0])
def test_the_bias_of_a_channel_without_weights_survives(
    float_model: bytes, photographs: np.ndarray, name: str, stored_as: str, value: float
) -> None:
    """Channel 5 of the first convolution has next to no weights, and a large bias."""
    dead = float_model
    for place, content in ((1, 1e-9), (2, value)):
        dead = with_constant(dead, 0, place, lambda values, content=content: values.__setitem__(5, content))
    tensor = read(recipe(name).apply(dead, photographs)).tensors[read(dead).operators[0].inputs[2]]
    stored = np.frombuffer(tensor.buffer, stored_as)
    assert stored[5] * tensor.quantization.scales[5] == pytest.approx(value, rel=1e-2)


@given(kernels_of_grid, st.integers(2, 16))
def test_each_weight_takes_the_nearest_value(kernel: np.ndarray, count: int) -> None:
    values, places = cluster_weights(kernel, count)
    assert len(values) == count
    distances = np.abs(kernel[..., None] - values)
    taken = np.take_along_axis(distances, places[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(taken, distances.min(axis=-1), atol=1e-5)


def test_few_values_are_kept_exactly() -> None:
    kernel = np.random.default_rng(0).choice(np.array([-1.0, 0.0, 0.5], np.float32), (8, 8))
    values, places = cluster_weights(kernel, 16)
    np.testing.assert_allclose(values[places], kernel, atol=1e-6)


def _problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs that know much of each other, weights, and coarse steps."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(500, 4)) @ draw.normal(size=(4, 12)) + 0.1 * draw.normal(size=(500, 12))
    weights = draw.normal(size=(12, 5))
    return rows, weights, np.abs(weights).max(axis=0) / 7


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_outputs_move_less_than_by_rounding_to_the_nearest(seed: int) -> None:
    rows, weights, steps = _problem(seed)
    moments = rows.T @ rows / len(rows)
    errors = [
        np.square(rows @ (rounded - weights)).mean()
        for rounded in (spread_errors(weights, steps, moments), np.rint(weights / steps) * steps)
    ]
    assert errors[0] < errors[1]


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_weights_are_multiples_of_their_steps_and_the_greatest_stays(seed: int) -> None:
    rows, weights, steps = _problem(seed)
    found = spread_errors(weights, steps, rows.T @ rows / len(rows), last=7) / steps
    np.testing.assert_allclose(found, np.rint(found), atol=1e-9)
    np.testing.assert_array_equal(np.rint(np.abs(found).max(axis=0)), 7)


def test_inputs_that_no_image_shows_are_rounded_to_the_nearest() -> None:
    weights = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(spread_errors(weights, np.full(2, 0.1), np.zeros((6, 6))), np.rint(weights / 0.1) * 0.1)


@pytest.fixture(scope="module")
def observation(float_model: bytes, photographs: np.ndarray) -> Observation:
    return observe_activations(float_model, photographs)


def test_every_activation_is_noted(float_model: bytes, observation: Observation) -> None:
    model = read(float_model)
    wanted = {model.subgraphs[0].inputs[0], *(index for operator in model.operators for index in operator.outputs)}
    assert set(observation.activations) == wanted
    assert all(one.means.shape == (model.tensors[at].shape[-1],) for at, one in observation.activations.items())


def test_notes_are_what_is_computed(float_model: bytes, photographs: np.ndarray, observation: Observation) -> None:
    answers = predict_arrays(float_model, photographs)
    found = observation.activations[read(float_model).subgraphs[0].outputs[0]]
    np.testing.assert_allclose(found.highs, np.max(answers, axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.means, np.mean(answers, axis=0), rtol=1e-4, atol=1e-6)


def test_every_layer_has_the_covariance_of_what_it_sees(float_model: bytes, observation: Observation) -> None:
    model = read(float_model)
    kernels = {op.inputs[1]: op.name for op in model.operators if len(op.inputs) > 2}
    assert set(observation.moments) == set(kernels)
    for at, moments in observation.moments.items():
        shape = model.tensors[at].shape
        weights = int(np.prod(shape[1:]))
        wanted = (shape[3], shape[1] * shape[2]) if kernels[at] == "DEPTHWISE_CONV_2D" else (weights,)
        assert moments.shape == (*wanted, wanted[-1])
        np.testing.assert_allclose(moments, np.swapaxes(moments, -1, -2), atol=1e-6)
        assert np.linalg.eigvalsh(moments).min() > -1e-6


def test_a_model_is_observed_once_and_forgotten_with_what_it_made(float_model: bytes, photographs: np.ndarray) -> None:
    observer = Observer()
    first = observer(float_model, photographs[:3])
    observer.corrected["form"] = b"made"
    assert observer(float_model, photographs[:3].copy()) is first
    assert observer.corrected == {"form": b"made"}
    assert observer(float_model, photographs[:4]) is not first
    assert observer.corrected == {}


def _activation(values: np.ndarray) -> Activation:
    return Activation(values.min(0), values.max(0), values.mean(0))


@given(values)
def test_the_span_holds_zero_and_all_that_was_seen(values: np.ndarray) -> None:
    low, high = _activation(values).range
    assert low <= min(values.min(), 0)
    assert high >= max(values.max(), 0)


def test_outliers_keep_their_place_and_pixels_get_room_between_no_steps() -> None:
    values = np.random.default_rng(0).normal(size=(200_000, 1)).astype(np.float32)
    values[0] = 10.0
    observation = Observation({3: _activation(values), 5: _activation(values)}, {}, sources=(5,))
    found = observation.compute_ranges()
    assert found[3] == (values.min(), 10.0)
    assert found[5][1] > 10.0
    assert observation.compute_ranges(16)[5] == found[3]
    pixels = ((np.arange(256, dtype=np.float32) - 127.5) / 127.5)[:, None]
    low, high = widen_for_pixels(_activation(pixels).range)
    step = (high - low) / LEVELS
    assert len(np.unique(np.rint(pixels / step))) > 250
    assert len(np.unique(np.rint((np.arange(256) - 127.5) * 1.0))) < 140


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("size", "stride", "dilation"), [(1, 1, 1), (3, 1, 1), (3, 2, 1), (2, 2, 1), (3, 1, 2)])
def test_the_kernel_times_what_is_seen_is_the_convolution(size: int, stride: int, dilation: int, same: bool) -> None:
    draw, graph = np.random.default_rng(0), Graph()
    value = draw.normal(size=(1, 9, 8, 3)).astype(np.float32)
    kernel = draw.normal(size=(4, size, size, 3)).astype(np.float32)
    constants = graph.tensor("kernel", kernel.shape, kernel), graph.tensor("bias", (4,), np.zeros(4, np.float32))
    options = schema.Conv2DOptionsT(int(not same), stride, stride, dilationWFactor=dilation, dilationHFactor=dilation)
    inputs = [graph.tensor("image", value.shape), *constants]
    output = graph.added(schema.BuiltinOperator.CONV_2D, inputs, (1, 1, 1, 4), options)
    wanted = run(graph.finish({"image": inputs[0]}, {"output": output}), value)["output"]
    layer = Layer("CONV_2D", 0, 1, 2, size * size * 3, (size,) * 2, (stride,) * 2, (dilation,) * 2, same)
    seen = layer.draw_inputs(value, PLACES, draw)
    found = seen.reshape(len(seen), -1) @ kernel.reshape(4, -1).T
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(wanted.reshape(-1, 4), axis=0), atol=1e-4)


def test_no_more_positions_are_drawn_than_asked_for() -> None:
    layer = Layer("CONV_2D", 0, 1, 2, 27, (3, 3), same=True)
    assert layer.draw_inputs(np.zeros((1, 9, 8, 3), np.float32), 5, np.random.default_rng(0)).shape == (5, 9, 3)


def test_every_layer_of_a_file_has_its_window(float_model: bytes) -> None:
    found = find_layers(read(float_model))
    assert [one.kind for one in found].count("DEPTHWISE_CONV_2D") == 2
    assert found[0].size == (3, 3)
    assert found[0].strides == (2, 2)
    assert found[-1].kind == "FULLY_CONNECTED"


def features(count: int = 200) -> np.ndarray:
    """Correlated features, of which the last hardly varies."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((count, 6)) @ random.standard_normal((6, 12)) + random.normal(size=12)
    rows[:, -1] = 1e-4 * random.standard_normal(count)
    return rows.astype(np.float32)


def lost(kernel: np.ndarray, rounded: np.ndarray) -> float:
    """Return the root mean square of the error of the outputs, without their mean, which a bias corrects."""
    return float(np.std(features() @ (kernel - rounded), axis=0).mean())


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_great_weight_on_a_feature_that_hardly_varies_leaves_steps_for_the_others(per_channel: bool) -> None:
    kernel = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
    kernel[-1] = 1000.0
    plain = Grid(8, per_channel).round(kernel.astype(np.float64), 1)
    assert lost(kernel, plain) > 1  # all but that weight are 0
    assert lost(kernel, round_dense(kernel, features(), per_channel)) < 0.3


@pytest.mark.parametrize(("per_channel", "count"), [(True, 3), (False, 1)])
def test_weights_are_on_255_steps_with_the_greatest_on_the_last(per_channel: bool, count: int) -> None:
    kernel = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
    rounded = round_dense(kernel, features(), per_channel)
    steps = np.unique(np.abs(rounded).max(axis=0 if per_channel else None) / 127)
    assert len(steps) == count
    multiples = rounded / (np.abs(rounded).max(axis=0 if per_channel else None) / 127)
    np.testing.assert_allclose(multiples, np.rint(multiples), atol=1e-6)
    assert lost(kernel, rounded) <= lost(kernel, Grid(8, per_channel).round(kernel.astype(np.float64), 1))


def test_a_kernel_of_zeros_stays() -> None:
    assert not round_dense(np.zeros((12, 3), np.float32), features()).any()


GRIDS = (BYTES, Grids(Grid(8), None))


@pytest.fixture(scope="module")
def prepared(float_model: bytes, photographs: np.ndarray) -> PreparedModel:
    return prepare_all(float_model, photographs, GRIDS)


def _with_another_head(data: bytes) -> bytes:
    """Return the model with twice the weights in its last layer."""
    tables, model = unpack(data), read(data)
    kernel = [operator for operator in model.operators if len(operator.inputs) > 2][-1].inputs[1]
    doubled = 2 * np.frombuffer(model.tensors[kernel].buffer, "<f4")
    tables.subgraphs[0].tensors[kernel].buffer = tables.add_buffer(doubled.astype("<f4").tobytes())
    return tables.pack()


def test_recipes_correct_as_each_alone(float_model: bytes, photographs: np.ndarray, prepared: PreparedModel) -> None:
    observation = observe_activations(float_model, photographs)
    assert dict(prepared.corrected) == {each: correct_model(float_model, each, observation) for each in GRIDS}


@pytest.mark.parametrize("name", ["int8", "weight_int8", "dynamic_int8"])
def test_a_form_is_the_same_with_and_without(
    name: str, float_model: bytes, photographs: np.ndarray, prepared: PreparedModel, tmp_path: Path
) -> None:
    prepared.save(tmp_path)
    kept = PreparedModel.load(tmp_path)
    shared = recipe(name).make(float_model, RecipeInputs(photographs, observer=kept.observer()))
    assert shared.data == recipe(name).apply(float_model, photographs)


def test_a_model_with_another_head_gives_the_same_as_if_it_were_the_first(
    float_model: bytes, photographs: np.ndarray, prepared: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _with_another_head(float_model)
    alone = prepare_all(other, photographs, GRIDS)
    read_at: list[list[int]] = []
    make_interpreter = observing._make_interpreter

    def watched(data: bytes, outputs: list[int]) -> object:
        read_at.append(outputs)
        return make_interpreter(data, outputs)

    monkeypatch.setattr(observing, "_make_interpreter", watched)
    again = prepare_all(other, photographs, GRIDS, prepared)
    assert len(read_at[0]) < len(prepared.activations) / 2
    assert dict(again.corrected) == dict(alone.corrected) != dict(prepared.corrected)
    assert set(again.activations) == set(alone.activations)
    for index, one in again.activations.items():
        for found, expected in zip(vars(one).values(), vars(alone.activations[index]).values(), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_an_equal_model_is_not_run_again(
    float_model: bytes, photographs: np.ndarray, prepared: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "_make_interpreter", lambda *_: pytest.fail("the model was run again"))
    again = prepare_all(float_model, photographs, GRIDS, prepared)
    assert dict(again.corrected) == dict(prepared.corrected)
