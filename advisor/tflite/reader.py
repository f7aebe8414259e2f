"""Turn a flatbuffer into values, with every index and size checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.options import options_of
from advisor.tflite.values import BITS, MetadataEntry, Model, Operator, Quantization, Signature, Subgraph, Tensor
from advisor.tflite.verify import Damage, verify

_MAX_RANK = 32
"""Largest number of dimensions of a tensor; runtimes accept 8."""


def build(data: bytes) -> Model:
    """Return the value of the file ``data``.

    Raises:
        Damage: what is wrong with the file; a reader's own error where it trips over something not checked here.
    """
    verify(data)
    root = schema.Model.GetRootAs(data, 0)
    if root.Version() != 3:
        raise Damage(f"its schema version is {root.Version()}, not 3")
    model = _Reader(root, data).model()
    if not model.subgraphs:
        raise Damage("it holds no graph")
    _check(model)
    return model


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def _indices(vector: Any) -> tuple[int, ...]:
    return () if isinstance(vector, int) else tuple(int(number) for number in vector)


class _Reader:
    """Turns the results of the generated accessors into values."""

    def __init__(self, root: schema.Model, data: bytes) -> None:
        self._root = root
        self._data = data
        self._types = {code: name.lower() for name, code in vars(schema.TensorType).items() if isinstance(code, int)}
        self._names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
        self._buffers = [self._buffer(root.Buffers(index)) for index in range(root.BuffersLength())]
        self._codes = [self._code(root.OperatorCodes(index)) for index in range(root.OperatorCodesLength())]

    def model(self) -> Model:
        root = self._root
        return Model(
            version=root.Version(),
            description=_text(root.Description()),
            subgraphs=tuple(self._subgraph(root.Subgraphs(i)) for i in range(root.SubgraphsLength())),
            signatures=tuple(self._signature(root.SignatureDefs(i)) for i in range(root.SignatureDefsLength())),
            metadata=tuple(self._metadata(root.Metadata(i)) for i in range(root.MetadataLength())),
            size_bytes=len(self._data),
        )

    def _buffer(self, buffer: schema.Buffer) -> bytes:
        return buffer_content(self._data, buffer.Offset(), buffer.Size(), buffer.DataAsNumpy())

    def _code(self, code: schema.OperatorCode) -> tuple[str, int]:
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self._names.get(number, f"BUILTIN_{number}")
        custom = _text(code.CustomCode())
        return (f"CUSTOM:{custom}" if name == "CUSTOM" and custom else name), code.Version()

    def _subgraph(self, graph: schema.SubGraph) -> Subgraph:
        return Subgraph(
            name=_text(graph.Name()),
            tensors=tuple(self._tensor(graph.Tensors(index)) for index in range(graph.TensorsLength())),
            operators=tuple(self._operator(graph.Operators(index)) for index in range(graph.OperatorsLength())),
            inputs=_indices(graph.InputsAsNumpy()),
            outputs=_indices(graph.OutputsAsNumpy()),
        )

    def _tensor(self, tensor: schema.Tensor) -> Tensor:
        if tensor.Buffer() >= len(self._buffers):
            raise Damage(f"tensor {_text(tensor.Name())!r} names buffer {tensor.Buffer()} of {len(self._buffers)}")
        if tensor.ShapeLength() > _MAX_RANK:
            raise Damage(f"tensor {_text(tensor.Name())!r} has {tensor.ShapeLength()} dimensions")
        return Tensor(
            name=_text(tensor.Name()),
            shape=_indices(tensor.ShapeAsNumpy()),
            dtype=self._types.get(tensor.Type(), f"type_{tensor.Type()}"),
            buffer=self._buffers[tensor.Buffer()],
            quantization=_quantization(tensor.Quantization()),
            is_variable=bool(tensor.IsVariable()),
            is_sparse=tensor.Sparsity() is not None,
        )

    def _operator(self, operator: schema.Operator) -> Operator:
        if operator.OpcodeIndex() >= len(self._codes):
            raise Damage(f"an operator names code {operator.OpcodeIndex()} of {len(self._codes)}")
        name, version = self._codes[operator.OpcodeIndex()]
        inputs, outputs = _indices(operator.InputsAsNumpy()), _indices(operator.OutputsAsNumpy())
        return Operator(name, version, inputs, outputs, options_of(operator))

    def _signature(self, signature: schema.SignatureDef) -> Signature:
        inputs = (signature.Inputs(index) for index in range(signature.InputsLength()))
        outputs = (signature.Outputs(index) for index in range(signature.OutputsLength()))
        return Signature(
            key=_text(signature.SignatureKey()),
            subgraph=signature.SubgraphIndex(),
            inputs=tuple((_text(entry.Name()), entry.TensorIndex()) for entry in inputs),
            outputs=tuple((_text(entry.Name()), entry.TensorIndex()) for entry in outputs),
        )

    def _metadata(self, entry: schema.Metadata) -> MetadataEntry:
        if entry.Buffer() >= len(self._buffers):
            raise Damage(f"metadata {_text(entry.Name())!r} names buffer {entry.Buffer()} of {len(self._buffers)}")
        return MetadataEntry(_text(entry.Name()), self._buffers[entry.Buffer()])


def buffer_content(data: bytes, offset: int, size: int, inside: schema.Buffer) -> bytes:
    """Return a buffer's bytes: ``inside`` the flatbuffer, or behind it at ``offset`` (0 and 1 mean inside).

    Raises:
        Damage: the place behind the flatbuffer lies outside the file.
    """
    if offset <= 1:
        return b"" if isinstance(inside, int) else bytes(inside)
    if offset + size > len(data):
        raise Damage(f"a buffer ends at byte {offset + size}, but the file has {len(data)}")
    return data[offset : offset + size]


def _quantization(parameters: schema.QuantizationParameters) -> Quantization | None:
    if parameters is None or parameters.ScaleLength() == 0:
        return None
    return Quantization(
        scales=tuple(float(scale) for scale in parameters.ScaleAsNumpy()),
        zero_points=_indices(parameters.ZeroPointAsNumpy()),
        axis=parameters.QuantizedDimension(),
    )


def _check(model: Model) -> None:
    """Raise Damage for invalid indices and for constants whose size does not match their shape."""
    for graph in model.subgraphs:
        count = len(graph.tensors)
        for operator in graph.operators:
            _check_indices(operator.inputs, count, f"operator {operator.name}", -1)
            _check_indices(operator.outputs, count, f"operator {operator.name}")
        _check_indices(graph.inputs, count, "the list of inputs")
        _check_indices(graph.outputs, count, "the list of outputs")
        for tensor in graph.tensors:
            _check_tensor(tensor)
    for signature in model.signatures:
        if signature.subgraph >= len(model.subgraphs):
            raise Damage(f"signature {signature.key!r} names graph {signature.subgraph} of {len(model.subgraphs)}")
        count = len(model.subgraphs[signature.subgraph].tensors)
        entries = (index for _, index in (*signature.inputs, *signature.outputs))
        _check_indices(entries, count, f"signature {signature.key!r}")


def _check_indices(indices: Iterable[int], count: int, owner: str, lowest: int = 0) -> None:
    wrong = next((index for index in indices if not lowest <= index < count), None)
    if wrong is not None:
        raise Damage(f"{owner} names tensor {wrong} of {count}")


def _check_tensor(tensor: Tensor) -> None:
    if any(dimension < -1 for dimension in tensor.shape):
        raise Damage(f"tensor {tensor.name!r} has shape {tensor.shape}")
    if not tensor.is_constant or tensor.is_sparse or tensor.dtype not in BITS:
        return
    if len(tensor.buffer) != tensor.size_bytes:
        raise Damage(
            f"tensor {tensor.name!r} of {tensor.dtype} {tensor.shape} needs {tensor.size_bytes} bytes, "
            f"but holds {len(tensor.buffer)}"
        )
