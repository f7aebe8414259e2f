from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.compression.make import deflated_bytes
from advisor.compression.quantization.correction import correct
from advisor.compression.quantization.grid import Grid, Grids
from advisor.compression.quantization.observe import observe
from advisor.compression.recipes import recipe
from advisor.tflite.model import read

kernels = arrays(np.float64, (3, 2, 2, 4), elements=st.floats(-100, 100))
grids = st.builds(Grid, bits=st.sampled_from([4, 8, 10]), per_channel=st.booleans(), power_of_two=st.booleans())


@given(kernels, grids)
def test_there_are_no_more_values_than_steps(kernel: np.ndarray, grid: Grid) -> None:
    rounded = grid.round(kernel, axis=0)
    groups = rounded.reshape(3, -1) if grid.per_channel else rounded.reshape(1, -1)
    assert all(len(np.unique(group)) <= 2**grid.bits for group in groups)


@given(kernels, grids)
def test_weights_move_by_half_a_step_at_most(kernel: np.ndarray, grid: Grid) -> None:
    largest = np.abs(kernel).max(axis=(1, 2, 3), keepdims=True) if grid.per_channel else np.abs(kernel).max()
    step = largest / (2 ** (grid.bits - 1) - 1) * (2 if grid.power_of_two else 1)
    assert (np.abs(grid.round(kernel, axis=0) - kernel) <= step / 2 + 1e-9).all()


@given(kernels)
def test_steps_go_by_what_is_usual_but_never_need_more_bits(kernel: np.ndarray) -> None:
    grid = Grid(8, power_of_two=True, in_deviation=5.9)
    usual = np.sqrt(np.square(kernel).mean(axis=(1, 2, 3), keepdims=True))
    step = grid.steps(kernel, axis=0)
    assert (step >= usual / 5.9 / 1.5).all()
    assert (np.exp2(np.rint(np.log2(step))) == step).all()
    assert (np.abs(kernel) <= (2**7 - 1) * step * (1 + 1e-9)).all()


@given(kernels, grids)
def test_rounding_again_changes_nothing(kernel: np.ndarray, grid: Grid) -> None:
    once = grid.round(kernel, axis=0)
    if not grid.power_of_two:
        np.testing.assert_allclose(grid.round(once, axis=0), once, rtol=1e-9, atol=1e-300)


def _activations(data: bytes, photographs: np.ndarray) -> np.ndarray:
    """The pooled features, which stand before the head and its softmax."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    pooled = next(op.outputs[0] for op in read(data).operators if op.name == "MEAN")
    rows = []
    for image in photographs:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image[None])
        interpreter.invoke()
        rows.append(interpreter.get_tensor(pooled).reshape(-1).copy())
    return np.stack(rows)


@pytest.mark.parametrize("grid", [Grid(4), Grid(6), Grid(6, per_channel=False)])
def test_corrected_biases_bring_features_nearer_to_the_float_ones(
    float_model: bytes, photographs: np.ndarray, grid: Grid
) -> None:
    from advisor.tflite.rewrite import pack, unpack

    corrected = correct(float_model, Grids(grid, grid), observe(float_model, photographs[::2]))
    biases_of_old = unpack(corrected)
    for tensor, old in zip(biases_of_old.subgraphs[0].tensors, read(float_model).tensors, strict=True):
        if old.is_constant and len(old.shape) == 1 and old.dtype == "float32":
            biases_of_old.buffers[tensor.buffer].data = np.frombuffer(old.buffer, np.uint8)
    errors = [
        np.square(_activations(float_model, photographs[1::2]) - _activations(data, photographs[1::2])).mean()
        for data in (corrected, pack(biases_of_old))
    ]
    assert errors[0] < errors[1]


def test_a_grid_finer_than_float_changes_nothing(float_model: bytes, photographs: np.ndarray) -> None:
    changed = correct(float_model, Grids(Grid(30), Grid(30)), observe(float_model, photographs))
    np.testing.assert_allclose(
        _activations(changed, photographs), _activations(float_model, photographs), rtol=1e-4, atol=1e-5
    )


def test_depthwise_kernels_can_be_left_alone(float_model: bytes, photographs: np.ndarray) -> None:
    before, after = (
        read(float_model),
        read(correct(float_model, Grids(Grid(4), None), observe(float_model, photographs))),
    )
    for operator in before.operators:
        if operator.name in {"DEPTHWISE_CONV_2D", "CONV_2D"}:
            same = before.tensors[operator.inputs[1]].buffer == after.tensors[operator.inputs[1]].buffer
            assert same == (operator.name == "DEPTHWISE_CONV_2D")


def test_the_rounded_file_keeps_its_size_and_deflates_far_better(float_model: bytes, photographs: np.ndarray) -> None:
    rounded = recipe("rounded").apply(float_model, photographs)
    assert abs(len(rounded) - len(float_model)) < 2000
    assert deflated_bytes(rounded) < 0.5 * deflated_bytes(float_model)


def _with_a_dead_channel(data: bytes, value: float) -> tuple[bytes, int]:
    """The model with next to no weights, and a large bias, in the first convolution's channel 5; the bias's tensor."""
    from advisor.tflite.rewrite import pack, unpack

    model = unpack(data)
    graph = model.subgraphs[0]
    _, kernel, bias = graph.operators[0].inputs
    for tensor, content in ((kernel, 1e-9), (bias, value)):
        buffer = model.buffers[graph.tensors[tensor].buffer]
        values = np.frombuffer(bytes(bytearray(buffer.data)), "<f4").reshape(graph.tensors[tensor].shape).copy()
        values[5] = content
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    return pack(model), bias


@pytest.mark.parametrize(("name", "stored_as"), [("int8", "<i4"), ("int16x8", "<i8")])
@pytest.mark.parametrize("value", [2.0, 40.0])
def test_the_bias_of_a_channel_without_weights_survives(
    float_model: bytes, photographs: np.ndarray, name: str, stored_as: str, value: float
) -> None:
    dead, bias = _with_a_dead_channel(float_model, value)
    tensor = read(recipe(name).apply(dead, photographs)).tensors[bias]
    stored = np.frombuffer(tensor.buffer, stored_as)
    assert tensor.quantization is not None
    assert stored[5] * tensor.quantization.scales[5] == pytest.approx(value, rel=1e-2)
