"""Values as dense floats: float16, sparse, and those of quantized files."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.core import StageError, UsageError
from advisor.tflite import read, to_float16, to_float32, to_float_io, unpack
from advisor.tflite._floats import expand_sparse
from tests.tables import with_cases
from tests.tflite.graphs import Graph, edited, tiny_classifier
from tests.tflite.running import Array, Quantize, Run

WHOLE = schema.DimensionType.DENSE
ROWS = schema.DimensionType.SPARSE_CSR


def level(size: int, segments: Sequence[int] = (), indices: Sequence[int] = ()) -> schema.DimensionMetadataT:
    if not segments:
        return schema.DimensionMetadataT(format=WHOLE, denseSize=size)
    return schema.DimensionMetadataT(
        format=ROWS, denseSize=0,
        arraySegmentsType=schema.SparseIndexVector.Uint8Vector, arraySegments=schema.Uint8VectorT(np.uint8(segments)),
        arrayIndicesType=schema.SparseIndexVector.Uint8Vector, arrayIndices=schema.Uint8VectorT(np.uint8(indices)),
    )  # fmt: skip


def sparsity(
    order: Sequence[int], levels: Sequence[schema.DimensionMetadataT], blocks: Sequence[int] = ()
) -> schema.SparsityParametersT:
    return schema.SparsityParametersT(traversalOrder=order, blockMap=blocks, dimMetadata=levels)


def test_sparse_values_are_put_at_their_places_by_rows_columns_or_blocks() -> None:
    stored = sparsity([0, 1], [level(3), level(0, [0, 2, 2, 3], [0, 3, 1])])
    found = expand_sparse(np.array([5, 6, 7], np.float32), stored, (3, 4))
    np.testing.assert_array_equal(found, [[5, 0, 0, 6], [0, 0, 0, 0], [0, 7, 0, 0]])
    stored = sparsity([1, 0], [level(2), level(0, [0, 1, 3], [2, 0, 1])])
    np.testing.assert_array_equal(expand_sparse(np.arange(1, 4), stored, (3, 2)), [[0, 2], [0, 3], [1, 0]])
    stored = sparsity([0, 1, 2], [level(2), level(0, [0, 1, 2], [1, 0]), level(2)], blocks=[1])
    np.testing.assert_array_equal(expand_sparse(np.arange(1, 5), stored, (2, 4)), [[0, 0, 1, 2], [3, 4, 0, 0]])


@with_cases
def test_sparse_values_that_contradict_their_shape_are_refused(levels: list[list[Any]]) -> None:
    def spoil(model: Any) -> None:
        kernel = next(tensor for tensor in model.subgraphs[0].tensors if tensor.name == b"kernel")
        kernel.sparsity = sparsity([0, 1], [level(*arguments) for arguments in levels])

    with pytest.raises(UsageError, match="the sparse weights 'kernel' contradict their shape"):
        to_float32(edited(tiny_classifier(), spoil))


def test_sparse_weights_answer_as_dense_ones(run: Run) -> None:
    whole = tiny_classifier(width=4, classes=3)

    def thin(model: Any) -> None:
        kernel = next(tensor for tensor in model.subgraphs[0].tensors if tensor.name == b"kernel")
        kernel.sparsity = sparsity([0, 1], [level(3), level(0, [0, 4, 8, 12], [0, 1, 2, 3] * 3)])

    found = to_float32(edited(whole, thin))
    assert not any(tensor.is_sparse for tensor in read(found).tensors)
    image = {"image": np.array([[1, 2, 3, 4]], np.float32)}
    np.testing.assert_array_equal(run(found, image)["scores"], run(whole, image)["scores"])


def test_an_operator_that_makes_a_constant_dense_goes(run: Run) -> None:
    graph, image = Graph.with_image((1, 2))
    kernel = graph.tensor("kernel", (2, 2), np.array([3, 4], np.float32))
    graph.graph.tensors[kernel].sparsity = sparsity([0, 1], [level(2), level(0, [0, 1, 2], [0, 1])])
    wide = graph.added(schema.BuiltinOperator.DENSIFY, [kernel], (2, 2), schema.DensifyOptionsT())
    out = graph.added(
        schema.BuiltinOperator.FULLY_CONNECTED, [image, wide, -1], (1, 2), schema.FullyConnectedOptionsT()
    )
    found = to_float32(graph.finish({"image": image}, {"out": out}))
    assert [operator.name for operator in read(found).operators] == ["FULLY_CONNECTED"]
    assert run(found, {"image": np.array([[1, 2]], np.float32)})["out"].tolist() == [[3, 8]]


@pytest.mark.parametrize("finish", [bytes, to_float_io])
def test_a_quantized_file_becomes_float(
    finish: Callable[[bytes], bytes], quantize: Quantize, master: bytes, images: list[Array], run: Run
) -> None:
    found = to_float32(finish(quantize(master, "static_wi8_ai8", images)), quantized=True)
    model = read(found)
    assert {tensor.dtype for tensor in model.tensors} <= {"float32", "int32"}
    assert not {"QUANTIZE", "DEQUANTIZE"} & {operator.name for operator in model.operators}
    for image in images[:3]:
        expected, actual = run(master, {"image": image}), run(found, {"image": image})
        for name in expected:
            np.testing.assert_allclose(actual[name], expected[name], atol=0.1 * np.abs(expected[name]).max())


def test_a_quantized_file_keeps_its_form_unless_it_is_asked_for(quantize: Quantize, master: bytes) -> None:
    given = quantize(master, "dynamic_wi8_afp32")
    assert to_float32(given) is given


def test_values_of_four_bits_are_read_in_pairs() -> None:
    def halved(model: Any) -> None:
        kernel = next(tensor for tensor in model.subgraphs[0].tensors if tensor.name == b"kernel")
        kernel.type, kernel.shape = schema.TensorType.INT4, [1, 4]
        kernel.quantization = schema.QuantizationParametersT(scale=[0.5], zeroPoint=[0])
        model.buffers[kernel.buffer].data = np.frombuffer(bytes([0x21, 0xF8]), np.uint8)

    model = unpack(to_float32(edited(tiny_classifier(4, 1), halved), quantized=True))
    kernel = next(tensor for tensor in model.subgraphs[0].tensors if tensor.name == b"kernel")
    assert np.frombuffer(bytes(model.buffers[kernel.buffer].data), np.float32).tolist() == [0.5, 1.0, -4.0, -0.5]


def test_a_type_without_real_values_is_named() -> None:
    def odd(model: Any) -> None:
        tensor = model.subgraphs[0].tensors[0]
        tensor.type = schema.TensorType.UINT16
        tensor.quantization = schema.QuantizationParametersT(scale=[0.5], zeroPoint=[0])

    with pytest.raises(StageError, match="'image' is of a type that is not read here"):
        to_float32(edited(tiny_classifier(), odd), quantized=True)


def test_float16_values_as_float32_answer_the_same_to_last_bit(master: bytes, images: list[Array], run: Run) -> None:
    halved = to_float16(master)
    whole = to_float32(halved)
    assert {tensor.dtype for tensor in read(whole).tensors} == {"float32", "int32"}
    assert "DEQUANTIZE" not in {operator.name for operator in read(whole).operators}
    for image in images[:3]:
        expected, actual = run(halved, {"image": image}), run(whole, {"image": image})
        for name in expected:
            np.testing.assert_array_equal(actual[name], expected[name])


def test_a_file_without_float16_constants_stays_as_it_is(master: bytes) -> None:
    assert to_float32(master) is master
