"""Read a `.tflite` file, of anybody, as a frozen value.

Every other module of the room, and most rooms above, get a file through :func:`read` or
:func:`open_model`. The bytes are untrusted: `_verify.py` checks them before the reader of the
schema follows an offset, and a damaged file is a UsageError that names the file. Keep it so: no
code elsewhere may parse a file without this check.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from advisor.core import UsageError
from advisor.tflite._schema_names import list_names
from advisor.tflite._tables import BUILTINS, Tables
from advisor.tflite._values import (
    BITS,
    OPTIONS,
    Model,
    Operator,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
)
from advisor.tflite._verify import MAX_FILE_BYTES, Damage, verify_model

__all__ = ["Model", "Operator", "Subgraph", "Tensor", "guard_reader", "read"]

_MAX_RANK = 32  # runtimes accept 8

LITERT_CUSTOM = frozenset(
    {"CUSTOM:TFLite_Detection_PostProcess", "CUSTOM:Mfcc", "CUSTOM:AudioSpectrogram"}
)
"""Custom operators that LiteRT has, so that every app with it can run them."""

_TYPES = list_names(schema.TensorType)

_ACTIVATIONS = list_names(schema.ActivationFunctionType)


def read(source: bytes | Path, name: str = "") -> Model:
    """Return the value of a `.tflite` file; see :func:`open_model`."""
    return open_model(source, name)[1]


def open_model(source: bytes | Path, name: str = "") -> tuple[Tables, Model]:
    """Read a `.tflite` file, or its bytes, after a check for damage; errors call it ``name``.

    Returns:
        The tables of the file, every buffer's content inside them, and their value.

    Raises:
        UsageError: the file is absent, damaged, truncated or not a `.tflite` file.
    """
    if isinstance(source, Path):
        data = _read_file(source)
        name = name or str(source)
    else:
        data = source
    with guard_reader(name or "the model"):
        return _parse_model(data)


@contextmanager
def guard_reader(name: str) -> Iterator[None]:
    """Turn errors of a reader into a UsageError that names the file."""
    try:
        yield
    except Damage as damage:
        raise _refuse(name, str(damage)) from None
    except (
        struct.error,
        LookupError,
        ValueError,
        TypeError,
        OverflowError,
        AttributeError,
    ) as error:
        raise _refuse(name, f"a part of it cannot be read ({error})") from error


def text_of(value: bytes | None) -> str:
    """Return a name in a file as text, empty for none."""
    return (value or b"").decode("utf-8", "replace")


def _refuse(name: str, reason: str) -> UsageError:
    return UsageError(
        f"{name} is not a usable .tflite file: {reason}", "Fetch or convert the file again."
    )


def _read_file(path: Path) -> bytes:
    try:
        # Reading a pipe or a device may never end.
        if path.exists() and not path.is_file():
            raise UsageError(
                f"cannot read {path}: it is not a file", "Give the path of a .tflite file."
            )
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _refuse(str(path), f"it has more than {MAX_FILE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"cannot read {path}: {reason}", "Check the path of the .tflite file."
        ) from None


def _parse_model(data: bytes) -> tuple[Tables, Model]:
    verify_model(data)
    root = schema.Model.GetRootAs(data, 0)
    if root.Version() != 3:
        raise Damage(f"its schema version is {root.Version()}, not 3")
    tables = _complete_tables(root, data)
    model = _ValueReader(tables).read_model(len(data))
    if not model.subgraphs:
        raise Damage("it holds no graph")
    _check_tensor_indices(model)
    return tables, model


def _complete_tables(root: schema.Model, data: bytes) -> Tables:
    """Return the tables with a list in place of each one that the file leaves out."""
    tables = Tables()
    # The name that the generated reader has.
    tables._UnPack(root)
    for name in ("buffers", "metadata", "operatorCodes", "signatureDefs", "subgraphs"):
        setattr(tables, name, getattr(tables, name) or [])
    for buffer in tables.buffers:
        # Files of more than 2 GB have contents behind the flatbuffer; 0 and 1 are no places there.
        if buffer.offset > 1:
            end = buffer.offset + buffer.size
            if end > len(data):
                raise Damage(f"a buffer ends at byte {end}, but the file has {len(data)}")
            buffer.data = np.frombuffer(data, np.uint8)[buffer.offset : end]
    for graph in tables.subgraphs:
        graph.tensors = graph.tensors or []
        graph.operators = graph.operators or []
        for owner in (graph, *graph.operators):
            owner.inputs = list(_list_indices(owner.inputs))
            owner.outputs = list(_list_indices(owner.outputs))
    return tables


def _list_indices(vector: Any) -> tuple[int, ...]:
    if vector is None:
        return ()
    return tuple(map(int, vector))


class _ValueReader:
    """Makes the value of a file's tables; raises Damage for a place that does not exist."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._buffers = [
            b"" if buffer.data is None else bytes(buffer.data) for buffer in tables.buffers
        ]
        self._codes = list(map(_read_code, tables.operatorCodes))

    def read_model(self, size_bytes: int) -> Model:
        metadata = {}
        # Backwards: of entries with one name, the first one counts.
        for entry in reversed(self._tables.metadata):
            name = text_of(entry.name)
            metadata[name] = self._find_buffer(entry.buffer, f"metadata {name!r}")
        graphs = []
        for graph in self._tables.subgraphs:
            tensors = tuple(map(self._read_tensor, graph.tensors))
            operators = tuple(map(self._read_operator, graph.operators))
            graphs.append(
                Subgraph(
                    text_of(graph.name),
                    tensors,
                    operators,
                    tuple(graph.inputs),
                    tuple(graph.outputs),
                )
            )
        signatures = tuple(map(_read_signature, self._tables.signatureDefs))
        return Model(tuple(graphs), signatures, metadata, size_bytes)

    def _find_buffer(self, index: int, owner: str) -> bytes:
        if index >= len(self._buffers):
            raise Damage(f"{owner} names buffer {index} of {len(self._buffers)}")
        return self._buffers[int(index)]

    def _read_tensor(self, entry: schema.TensorT) -> Tensor:
        name = text_of(entry.name)
        shape = _list_indices(entry.shape)
        content = self._find_buffer(entry.buffer, f"tensor {name!r}")
        if len(shape) > _MAX_RANK:
            raise Damage(f"tensor {name!r} has {len(shape)} dimensions")
        if any(dimension < -1 for dimension in shape):
            raise Damage(f"tensor {name!r} has shape {shape}")
        dtype = _TYPES.get(entry.type, f"type_{entry.type}").lower()
        quantization = _read_quantization(entry.quantization)
        sparse = entry.sparsity is not None
        tensor = Tensor(name, shape, dtype, content, quantization, bool(entry.isVariable), sparse)
        if content and not sparse and dtype in BITS and len(content) != tensor.size_bytes:
            needed = f"of {dtype} {shape} needs {tensor.size_bytes} bytes"
            raise Damage(f"tensor {name!r} {needed}, but holds {len(content)}")
        return tensor

    def _read_operator(self, operator: schema.OperatorT) -> Operator:
        if operator.opcodeIndex >= len(self._codes):
            raise Damage(f"an operator names code {operator.opcodeIndex} of {len(self._codes)}")
        name, version = self._codes[operator.opcodeIndex]
        return Operator(
            name, version, tuple(operator.inputs), tuple(operator.outputs), _read_options(operator)
        )


def _read_code(code: schema.OperatorCodeT) -> tuple[str, int]:
    # The old field has one byte and holds a placeholder where the number does not fit.
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    name = BUILTINS.get(number, f"BUILTIN_{number}")
    custom = text_of(code.customCode)
    if name == "CUSTOM" and custom:
        name = f"CUSTOM:{custom}"
    return name, code.version


def _read_options(operator: schema.OperatorT) -> dict[str, float | str]:
    table = vars(operator.builtinOptions) if operator.builtinOptions else {}
    # The generated tables write strideH what the schema calls stride_h.
    fields = {re.sub("(?=[A-Z])", "_", name).lower(): value for name, value in table.items()}
    options = {name: fields[name] for name in OPTIONS if name in fields}
    for name, value in options.items():
        if name == "fused_activation_function":
            options[name] = _ACTIVATIONS.get(value, f"activation_{value}")
        elif isinstance(value, bool):
            options[name] = int(value)
    return options


def _read_quantization(parameters: schema.QuantizationParametersT | None) -> Quantization | None:
    if parameters is None or parameters.scale is None or len(parameters.scale) == 0:
        return None
    scales = tuple(map(float, parameters.scale))
    return Quantization(scales, _list_indices(parameters.zeroPoint), parameters.quantizedDimension)


def _read_signature(signature: schema.SignatureDefT) -> Signature:
    inputs = _named_tensors(signature.inputs)
    outputs = _named_tensors(signature.outputs)
    return Signature(text_of(signature.signatureKey), signature.subgraphIndex, inputs, outputs)


def _named_tensors(entries: Iterable[schema.TensorMapT] | None) -> tuple[tuple[str, int], ...]:
    return tuple((text_of(entry.name), entry.tensorIndex) for entry in entries or [])


def _check_tensor_indices(model: Model) -> None:
    """Raise Damage for indices of tensors that do not exist."""
    for graph in model.subgraphs:
        count = len(graph.tensors)
        for operator in graph.operators:
            _check_indices(operator.inputs, count, f"operator {operator.name}", -1)
            _check_indices(operator.outputs, count, f"operator {operator.name}")
        _check_indices(graph.inputs, count, "the list of inputs")
        _check_indices(graph.outputs, count, "the list of outputs")
    for signature in model.signatures:
        if signature.subgraph >= len(model.subgraphs):
            raise Damage(
                f"signature {signature.key!r} names graph {signature.subgraph} of"
                f" {len(model.subgraphs)}"
            )
        indices = [index for _, index in (*signature.inputs, *signature.outputs)]
        count = len(model.subgraphs[signature.subgraph].tensors)
        _check_indices(indices, count, f"signature {signature.key!r}")


def _check_indices(indices: Iterable[int], count: int, owner: str, lowest: int = 0) -> None:
    wrong = next((index for index in indices if not lowest <= index < count), None)
    if wrong is not None:
        raise Damage(f"{owner} names tensor {wrong} of {count}")
