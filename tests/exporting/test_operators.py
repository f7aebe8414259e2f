"""A selective build has the kernels of the model and no others."""

from __future__ import annotations

import flatbuffers
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from advisor.exporting.bundle import Bundle
from advisor.exporting.operators import (
    RUNTIME_KERNELS,
    UsedOperator,
    build_file,
    left_out,
    operators_json,
    registration,
    used_operators,
)
from advisor.store import RunFolder
from tests.exporting.conftest import evaluation_of


def one_operator(code: int, version: int) -> bytes:
    """Return a model that names one operator and does not use it: loading it looks the kernel up."""
    tensor = schema.TensorT(shape=[1], type=0, buffer=0, name=b"x")
    graph = schema.SubGraphT(tensors=[tensor], inputs=[0], outputs=[0], operators=[])
    operator = schema.OperatorCodeT(builtinCode=code, deprecatedBuiltinCode=min(code, 127), version=version)
    model = schema.ModelT(version=3, operatorCodes=[operator], subgraphs=[graph], buffers=[schema.BufferT()])
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def has_kernel(code: int, version: int) -> bool:
    try:
        Interpreter(model_content=one_operator(code, version))
    except ValueError:
        return False
    return True


def test_the_number_of_kernels_is_that_of_the_runtime() -> None:
    codes = [code for code in vars(schema.BuiltinOperator).values() if isinstance(code, int)]
    assert sum(has_kernel(code, 1) or has_kernel(code, 2) for code in codes) == RUNTIME_KERNELS


def test_every_operator_of_the_model_is_registered_with_its_versions(trained: RunFolder) -> None:
    content = (trained.path / evaluation_of(trained, "float16").artefact).read_bytes()
    operators = used_operators(content)
    names = {operator.name for operator in operators}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "DEQUANTIZE", "FULLY_CONNECTED", "SOFTMAX"} <= names
    source = registration(operators)
    for operator in operators:
        assert f"Register_{operator.name}(), {operator.least}, {operator.most});" in source
    assert source.count("AddBuiltin") == len(operators)
    assert left_out(operators) == RUNTIME_KERNELS - len(operators)


def test_the_registered_versions_are_ones_that_the_runtime_has(bundle: Bundle) -> None:
    codes = {name: code for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    for operator in used_operators(bundle.model.content):
        assert has_kernel(codes[operator.name], operator.least)
        assert has_kernel(codes[operator.name], operator.most)


def test_a_custom_operator_is_named_and_left_to_the_team() -> None:
    operators = (UsedOperator("ADD", 1, 2, 3), UsedOperator('CUSTOM:Mine*/"', 1, 1, 1))
    source = registration(operators)
    assert "Register_ADD(), 1, 2);" in source
    assert "custom operator 'Mine???'" in source
    assert left_out(operators) == RUNTIME_KERNELS - 1
    assert '"kernels_left_out": 171' in operators_json(operators)
    assert "the 1 kernels of model.tflite and none of the other 171" in build_file(operators, "model.tflite")
