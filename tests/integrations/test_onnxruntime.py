"""The ONNX export of a file: the types of its activations, and the comparison with the file."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.devices._connections.exports import INPUTS, compare_outputs
from advisor.devices._connections.runtime_files import difference_of
from advisor.integrations.onnxruntime import plain_tables, to_uint8, write_onnx
from advisor.tflite import unpack
from tests.builders import write_file
from tests.devices.requirements import require_onnx
from tests.measurement import small_models
from tests.tables import with_cases
from tests.tflite.graphs import Graph


def test_activations_become_uint8_and_weights_stay_int8() -> None:
    require_onnx()
    from onnx import TensorProto, helper, numpy_helper

    scale, zero = numpy_helper.from_array(np.float32(0.5), "scale"), numpy_helper.from_array(np.int8(-3), "zero")
    weights = numpy_helper.from_array(np.ones((2, 2), np.int8), "weights")
    plain = numpy_helper.from_array(np.int8(0), "plain")
    nodes = [
        helper.make_node("DequantizeLinear", ["image", "scale", "zero"], ["x"]),
        helper.make_node("DequantizeLinear", ["weights", "scale", "plain"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("QuantizeLinear", ["y", "scale", "zero"], ["answer"]),
    ]
    image, answer = (helper.make_tensor_value_info(name, TensorProto.INT8, [1, 2]) for name in ("image", "answer"))
    graph = helper.make_graph(nodes, "net", [image], [answer], [scale, zero, plain, weights])
    made = to_uint8(helper.make_model(graph)).graph
    constants = {each.name: numpy_helper.to_array(each) for each in made.initializer}
    zeros = [constants[node.input[2]] for node in made.node if len(node.input) == 3]
    assert [(str(each.dtype), int(each)) for each in zeros] == [("uint8", 125), ("int8", 0), ("uint8", 125)]
    assert {value.type.tensor_type.elem_type for value in (*made.input, *made.output)} == {TensorProto.UINT8}
    assert constants["weights"].dtype == np.int8


def test_operators_are_found_by_either_field_of_their_code_and_only_inputs_and_outputs_keep_their_names() -> None:
    tables = unpack(small_models.classifier())
    for code in tables.operatorCodes:
        code.builtinCode, code.deprecatedBuiltinCode = max(code.builtinCode, code.deprecatedBuiltinCode), 0
    made = unpack(plain_tables(tables.pack()))
    assert all(code.builtinCode == code.deprecatedBuiltinCode for code in made.operatorCodes)
    (graph,) = unpack(plain_tables(small_models.classifier())).subgraphs
    ends = {*graph.inputs, *graph.outputs}
    kept = {index for index, tensor in enumerate(graph.tensors) if not tensor.name.startswith(b"tensor.")}
    assert kept == ends


def test_the_largest_difference_is_a_share_of_the_range_and_integers_that_differ_by_a_step_are_ties() -> None:
    ours = [[np.array([[0.0, 10.0]])], [np.array([[4.0, 2.0]])]]
    theirs = [[np.array([[0.0, 9.0]])], [np.array([[2.0, 2.5]])]]
    assert compare_outputs(ours, theirs) == (1, 0.2)
    ours = [[np.array([[100, 101]], np.int8)], [np.array([[100, 102]], np.int8)]]
    theirs = [[np.array([[101, 100]], np.int16)], [np.array([[102, 100]], np.int16)]]
    assert compare_outputs(ours, theirs) == (1, 2 / 255)


@with_cases
def test_an_onnx_export_that_differs_is_refused(same: int, difference: float, kernels: float, words: str) -> None:
    facts = {"inputs": 32, "same_answers": same, "largest_difference": difference, "kernels_difference": kernels}
    found = difference_of(facts)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.integration
def test_an_int8_onnx_export_computes_what_its_file_does(tmp_path: Path) -> None:
    require_onnx()
    file = write_file(tmp_path / "model.tflite", small_models.quantized(small_models.classifier(), tmp_path, 32))
    facts = write_onnx(str(file), str(tmp_path / "model.onnx"))
    assert isinstance(facts, dict), facts
    assert facts["same_answers"] == INPUTS
    assert facts["largest_difference"] <= 0.01
    assert facts["kernels_difference"] == 0
    assert facts["transposes"] <= 2


@pytest.mark.integration
def test_uint8_outputs_of_the_file_are_compared_as_they_are(tmp_path: Path) -> None:
    require_onnx()
    graph = Graph()
    kind = schema.TensorType.UINT8
    image, pooled = graph.tensor("image", (1, 4, 4, 3), dtype=kind), graph.tensor("pooled", (1, 2, 2, 3), dtype=kind)
    for tensor in (image, pooled):
        steps = schema.QuantizationParametersT(scale=[0.5], zeroPoint=[128])
        graph.graph.tensors[tensor].quantization = steps
    options = schema.Pool2DOptionsT(strideW=2, strideH=2, filterWidth=2, filterHeight=2)
    graph.operator(schema.BuiltinOperator.MAX_POOL_2D, [image], [pooled], options)
    file = write_file(tmp_path / "model.tflite", graph.finish({"image": image}, {"pooled": pooled}))
    facts = write_onnx(str(file), str(tmp_path / "model.onnx"))
    assert isinstance(facts, dict), facts
    assert facts["largest_difference"] == 0


@pytest.mark.integration
def test_weights_that_are_widened_first_belong_to_their_operator(tmp_path: Path) -> None:
    require_onnx()
    from onnx import load

    file, export = tmp_path / "model.tflite", tmp_path / "model.onnx"
    file.write_bytes(small_models.weight_int8(small_models.classifier()))
    facts = write_onnx(str(file), str(export))
    assert isinstance(facts, dict), facts
    assert facts["largest_difference"] < 0.01
    assert "DequantizeLinear" in [node.op_type for node in load(str(export)).graph.node]


@pytest.mark.integration
def test_a_file_that_litert_does_not_run_has_no_onnx_export(tmp_path: Path) -> None:
    file = write_file(tmp_path / "custom.tflite", small_models.unknown_operator())
    reason = write_onnx(str(file), str(tmp_path / "model.onnx"))
    assert isinstance(reason, str)
    assert "unresolved custom op: Nobody" in reason
