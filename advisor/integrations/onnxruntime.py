"""The runtime ``host:onnxruntime``, and the ONNX exports of files.

Other runtimes may run the exports too. The entry points ``advisor.runtimes`` and
``advisor.exporters`` name this module; ``devices/_connections/runtime_files.py`` declares what a
maker of exports must offer. :data:`VERSION` is a part of the key of an export in the cache: raise
it if equal files give another export.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ai_edge_litert import schema_py_generated as schema

from advisor.core import StageError, UsageError, install_extra, message_of
from advisor.devices import (
    HostConnection,
    PackagedRuntime,
    compare_export,
    keep_export,
)
from advisor.isolation import CallLimits, Scratch
from advisor.tflite import Tables, read, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    Array = NDArray[Any]

FORMS = ("float32", "float16", "weight_int8", "int8", "pruned_50", "pruned_75", "clustered_16")
"""Forms with an ONNX export that computes the same. Weights stored as float16 are widened in it,
as LiteRT does on loading. ONNX has no operators that compute as LiteRT does with ``dynamic_int8``,
``weight_int4`` and ``int16x8``.
"""

TITLE = "ONNX"
VERSION = "4"
LIMITS = CallLimits(seconds=600, memory_bytes=8_000_000_000)
PACKAGES = ("onnx", "onnxruntime", "tf2onnx")
RUNTIME = PackagedRuntime(
    "onnxruntime", "ONNX Runtime", PACKAGES, "onnx", ("float32", "int8"), FORMS, HostConnection()
)
versions = RUNTIME.versions

OPSET = 17
"""The version of the ONNX operators: the newest that tf2onnx 1.17 writes without a warning."""


def inputs(sha256: str) -> dict[str, str]:
    """Return what an export depends on; see
    :class:`advisor.devices._connections.runtime_files.Exporter`.
    """
    package_versions = versions()
    for package in PACKAGES:
        if not package_versions[package]:
            raise UsageError(
                f"ONNX Runtime needs {package}, which is not installed", install_extra("onnx")
            )
    return {"artefact": sha256, **package_versions}


def write(model: Path, folder: Path) -> None:
    """Write the ONNX export of a file; see
    :class:`advisor.devices._connections.runtime_files.Exporter`.
    """
    comparison = write_onnx(str(model), str(folder / "model.onnx"))
    keep_export(comparison, folder, TITLE)


def write_onnx(model: str, export: str) -> dict[str, float] | str:
    """Write the ONNX export of a file, and return how it compares on the same inputs.

    Where there is no export, return why. One Transpose brings the image into ONNX's order.
    """
    try:
        converted = to_uint8(_convert(model))
        Path(export).write_bytes(converted.SerializeToString())
        facts = compare_export(model, partial(_run_onnx, export, _bytes_in(model)))
    except StageError as error:
        return error.message
    transposes = sum(node.op_type == "Transpose" for node in converted.graph.node)
    return {**facts, "transposes": transposes}


def _convert(model: str) -> ModelProto:
    """Return what tf2onnx makes of a file; StageError if it cannot."""
    # Before the import, as TensorFlow reads it while it is loaded.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tf2onnx import convert

    try:
        with Scratch() as folder:
            plain = folder / "plain.tflite"
            plain.write_bytes(plain_tables(Path(model).read_bytes()))
            exported, _ = convert.from_tflite(str(plain), opset=OPSET)
    # tf2onnx raises whatever its handlers meet.
    except Exception as error:
        raise StageError(f"tf2onnx cannot convert the file: {message_of(error)}") from error
    model_proto: ModelProto = exported
    return model_proto


def plain_tables(data: bytes) -> bytes:
    """Return a file in which tf2onnx finds everything.

    - All constants are inside the tables; files of the quantizer have some behind them.
    - 8-bit weights belong to the operator that uses them, without a DEQUANTIZE between.
      tf2onnx writes one.
    - Operator codes are in both fields that have one.
      The quantizer writes one field, and tf2onnx took its QUANTIZE for ADD.
    - No name meets one that tf2onnx makes: it calls the dequantized value of ``x`` ``x_dequant``.
    """
    tables = unpack(data)
    for code in tables.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
        code.deprecatedBuiltinCode = min(
            code.builtinCode, schema.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES
        )
    for graph in tables.subgraphs:
        widened = _find_widened(tables, graph)
        graph.operators = [
            operator for operator in graph.operators if int(operator.outputs[0]) not in widened
        ]
        for operator in graph.operators:
            operator.inputs = [widened.get(int(index), int(index)) for index in operator.inputs]
        ends = {*graph.inputs, *graph.outputs}
        for index, tensor in enumerate(graph.tensors):
            if index not in ends:
                tensor.name = f"tensor.{index}".encode()
    return tables.pack()


def _find_widened(tables: Tables, graph: schema.SubGraphT) -> dict[int, int]:
    """Return the 8-bit constant behind each tensor that a DEQUANTIZE operator makes of one."""
    widened = {}
    for operator in graph.operators:
        source = None
        if len(operator.inputs):
            source = graph.tensors[operator.inputs[0]]
        if source is None or tables.name_operator(operator) != "DEQUANTIZE":
            continue
        if source.type == schema.TensorType.INT8 and tables.read_content(source) is not None:
            widened[int(operator.outputs[0])] = int(operator.inputs[0])
    return widened


def to_uint8(model: ModelProto) -> ModelProto:
    """Write int8 activations as uint8 with a shifted zero point: the same values in another type.

    On x86, ONNX Runtime fuses quantized operators only with uint8 activations and int8 weights.
    Measured with 1.31: MobileNetV2 takes 7.5 ms with int8 and 3.3 ms with uint8, SqueezeNet 11.6
    ms and 2.1 ms.
    """
    import numpy as np
    from onnx import TensorProto, numpy_helper

    graph = model.graph
    constants = {initializer.name: initializer for initializer in graph.initializer}
    shifted: dict[str, str] = {}
    for node in graph.node:
        is_quantizer = node.op_type in ("QuantizeLinear", "DequantizeLinear")
        # Weights are constants and stay int8, which the fused operators take.
        if not is_quantizer or node.input[0] in constants or len(node.input) < 3:
            continue
        name = node.input[2]
        if constants[name].data_type != TensorProto.INT8:
            continue
        if name not in shifted:
            zero = numpy_helper.to_array(constants[name]).astype(np.int16) + 128
            shifted[name] = f"{name}_uint8"
            graph.initializer.append(numpy_helper.from_array(zero.astype(np.uint8), shifted[name]))
        node.input[2] = shifted[name]
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.INT8:
            value.type.tensor_type.elem_type = TensorProto.UINT8
    return model


def _bytes_in(model: str) -> list[bool]:
    """Return whether each output of a file is int8."""
    return [output.dtype == "int8" for output in read(Path(model)).outputs]


def _run_onnx(
    export: str, shifted_back: Sequence[bool], inputs: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """Run the export on inputs of its file, and return the outputs of its file.

    Values that are int8 in the file are shifted on the way in and out: the export has them as
    uint8.
    """
    import numpy as np
    import onnxruntime

    answers = []
    try:
        session = onnxruntime.InferenceSession(export, providers=["CPUExecutionProvider"])
        names = [graph_input.name for graph_input in session.get_inputs()]
        for values in inputs:
            feeds = {}
            for name, value in zip(names, values, strict=True):
                feeds[name] = value
                if value.dtype == np.int8:
                    # In int16 between, where no sum overflows.
                    feeds[name] = (value.astype(np.int16) + 128).astype(np.uint8)
            outputs = []
            for value, shift in zip(session.run(None, feeds), shifted_back, strict=True):
                outputs.append(value.astype(np.int16) - 128 if shift else value)
            answers.append(outputs)
    # ONNX Runtime's errors have no common class.
    except Exception as error:
        raise StageError(f"ONNX Runtime cannot run the export: {message_of(error)}") from error
    return answers
