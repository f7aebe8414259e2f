"""A `.tflite` file as a frozen value."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from advisor.core.errors import UsageError
from advisor.tflite.verify import MAX_FILE_BYTES, Damage, verify

_MAX_RANK = 32
"""Dimensions of a tensor at most; runtimes take 8."""

_BITS = MappingProxyType(
    {
        "int2": 2,
        "int4": 4,
        "uint4": 4,
        "bool": 8,
        "int8": 8,
        "uint8": 8,
        "float8_e4m3fn": 8,
        "float8_e5m2": 8,
        "float16": 16,
        "bfloat16": 16,
        "int16": 16,
        "uint16": 16,
        "float32": 32,
        "int32": 32,
        "uint32": 32,
        "float64": 64,
        "int64": 64,
        "uint64": 64,
        "complex64": 64,
        "complex128": 128,
    }
)
"""Bits of one element, by type; strings, resources and variants have no fixed width."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """An affine mapping: real = scale * (stored - zero point), per tensor or per slice along ``axis``."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: an activation, or a constant when the file holds its content.

    Attributes:
        name: the name in the file; need not be unique.
        shape: one entry a dimension; dynamic dimensions appear as the file states them (1 or -1).
        dtype: ``float32``, ``int8``, ... or ``type_<n>`` for one that this version does not know.
        buffer: the stored content, empty for an activation.
        quantization: None where the values are stored as they are.
        is_variable: whether the value outlives one run.
        is_sparse: whether ``buffer`` holds a sparse encoding.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    buffer: bytes = field(repr=False)
    quantization: Quantization | None
    is_variable: bool
    is_sparse: bool

    @property
    def is_constant(self) -> bool:
        """Whether the file holds this tensor's content."""
        return len(self.buffer) > 0

    @property
    def elements(self) -> int:
        """How many elements the tensor has, a dynamic dimension counted as 1."""
        return math.prod(1 if dimension < 0 else dimension for dimension in self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the dense tensor; 4 an element where the type has no fixed width."""
        return (self.elements * _BITS.get(self.dtype, 32) + 7) // 8


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        name: the builtin operator's name (``CONV_2D``), or ``CUSTOM:<code>``.
        version: the operator's version, which a runtime must know.
        inputs: tensor indices; -1 for an optional input that is absent.
        outputs: tensor indices.
    """

    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph of operators over its own tensors, operators in the order of execution."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """A named way to call a subgraph: (name, tensor index) of each input and output."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """A named piece of bytes that the file carries beside its graphs."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Model:
    """A `.tflite` file.

    Attributes:
        version: version of the schema (3).
        description: what the converter wrote.
        subgraphs: the graphs, the main one first.
        signatures: the named calls; older files have none.
        metadata: named pieces of bytes.
        size_bytes: size of the file.
    """

    version: int
    description: str
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    metadata: tuple[MetadataEntry, ...]
    size_bytes: int

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The main graph's tensors."""
        return self.subgraphs[0].tensors

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The main graph's operators."""
        return self.subgraphs[0].operators

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The main graph's inputs."""
        return tuple(self.tensors[index] for index in self.subgraphs[0].inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The main graph's outputs."""
        return tuple(self.tensors[index] for index in self.subgraphs[0].outputs)


def read(source: bytes | Path, name: str = "") -> Model:
    """Read a `.tflite` file, or its bytes, after checking that it is whole.

    Args:
        source: the file or its bytes.
        name: what to call bytes in an error; a file is called by its path.

    Raises:
        UsageError: the file is absent, damaged, truncated or not a `.tflite` file.
    """
    called = name or (str(source) if isinstance(source, Path) else "the model")
    data = _content(source) if isinstance(source, Path) else source
    return guarded(called, lambda: _model(data))


_T = TypeVar("_T")


def guarded(name: str, build: Callable[[], _T]) -> _T:
    """Return ``build()``; what a reader trips over in it becomes a UsageError that names the file."""
    try:
        return build()
    except Damage as damage:
        raise _refusal(name, str(damage)) from None
    except (struct.error, LookupError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise _refusal(name, f"a part of it cannot be read ({error})") from error


def _refusal(name: str, reason: str) -> UsageError:
    return UsageError(f"{name} is not a usable .tflite file: {reason}", "Fetch or convert the file again.")


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"cannot read {path}: it is not a file", "Give the path of a .tflite file.")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _refusal(str(path), f"it has more than {MAX_FILE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"cannot read {path}: {reason}", "Check the path of the .tflite file.") from None


def _model(data: bytes) -> Model:
    from ai_edge_litert import schema_py_generated as schema

    verify(data)
    root = schema.Model.GetRootAs(data, 0)
    if root.Version() != 3:
        raise Damage(f"its schema version is {root.Version()}, not 3")
    reader = _Reader(schema, root, data)
    model = reader.model()
    if not model.subgraphs:
        raise Damage("it holds no graph")
    _check(model)
    return model


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def _indices(vector: Any) -> tuple[int, ...]:
    return () if isinstance(vector, int) else tuple(int(number) for number in vector)


class _Reader:
    """Turns the generated accessors' answers into values."""

    def __init__(self, schema: Any, root: Any, data: bytes) -> None:
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

    def _buffer(self, buffer: Any) -> bytes:
        return buffer_content(self._data, buffer.Offset(), buffer.Size(), buffer.DataAsNumpy())

    def _code(self, code: Any) -> tuple[str, int]:
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self._names.get(number, f"BUILTIN_{number}")
        custom = _text(code.CustomCode())
        return (f"CUSTOM:{custom}" if name == "CUSTOM" and custom else name), code.Version()

    def _subgraph(self, graph: Any) -> Subgraph:
        return Subgraph(
            name=_text(graph.Name()),
            tensors=tuple(self._tensor(graph.Tensors(index)) for index in range(graph.TensorsLength())),
            operators=tuple(self._operator(graph.Operators(index)) for index in range(graph.OperatorsLength())),
            inputs=_indices(graph.InputsAsNumpy()),
            outputs=_indices(graph.OutputsAsNumpy()),
        )

    def _tensor(self, tensor: Any) -> Tensor:
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

    def _operator(self, operator: Any) -> Operator:
        if operator.OpcodeIndex() >= len(self._codes):
            raise Damage(f"an operator names code {operator.OpcodeIndex()} of {len(self._codes)}")
        name, version = self._codes[operator.OpcodeIndex()]
        return Operator(name, version, _indices(operator.InputsAsNumpy()), _indices(operator.OutputsAsNumpy()))

    def _signature(self, signature: Any) -> Signature:
        inputs = (signature.Inputs(index) for index in range(signature.InputsLength()))
        outputs = (signature.Outputs(index) for index in range(signature.OutputsLength()))
        return Signature(
            key=_text(signature.SignatureKey()),
            subgraph=signature.SubgraphIndex(),
            inputs=tuple((_text(entry.Name()), entry.TensorIndex()) for entry in inputs),
            outputs=tuple((_text(entry.Name()), entry.TensorIndex()) for entry in outputs),
        )

    def _metadata(self, entry: Any) -> MetadataEntry:
        if entry.Buffer() >= len(self._buffers):
            raise Damage(f"metadata {_text(entry.Name())!r} names buffer {entry.Buffer()} of {len(self._buffers)}")
        return MetadataEntry(_text(entry.Name()), self._buffers[entry.Buffer()])


def buffer_content(data: bytes, offset: int, size: int, inside: Any) -> bytes:
    """Return a buffer's bytes: ``inside`` the flatbuffer, or behind it at ``offset`` (0 and 1 mean inside).

    Raises:
        Damage: the place behind the flatbuffer lies outside the file.
    """
    if offset <= 1:
        return b"" if isinstance(inside, int) else bytes(inside)
    if offset + size > len(data):
        raise Damage(f"a buffer ends at byte {offset + size}, but the file has {len(data)}")
    return data[offset : offset + size]


def _quantization(parameters: Any) -> Quantization | None:
    if parameters is None or parameters.ScaleLength() == 0:
        return None
    return Quantization(
        scales=tuple(float(scale) for scale in parameters.ScaleAsNumpy()),
        zero_points=_indices(parameters.ZeroPointAsNumpy()),
        axis=parameters.QuantizedDimension(),
    )


def _check(model: Model) -> None:
    """Refuse indices that lead nowhere and constants whose size is not that of their shape."""
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
    if not tensor.is_constant or tensor.is_sparse or tensor.dtype not in _BITS:
        return
    if len(tensor.buffer) != tensor.size_bytes:
        raise Damage(
            f"tensor {tensor.name!r} of {tensor.dtype} {tensor.shape} needs {tensor.size_bytes} bytes, "
            f"but holds {len(tensor.buffer)}"
        )
