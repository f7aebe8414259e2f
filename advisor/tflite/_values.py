"""Describe a `.tflite` file as frozen values: model, graph, operator, tensor.

`_model.py` makes them of a file, and every room that only looks at a file reads them. They cannot
be edited: edits work on the tables of `_tables.py`. Names of operators and types are those of
TensorFlow Lite, because profiles of devices and rules of accelerators name them too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TRANSPOSE = "TRANSPOSE"

BITS = MappingProxyType(
    {
        "int2": 2,
        **dict.fromkeys(("int4", "uint4"), 4),
        **dict.fromkeys(("bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 8),
        **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 16),
        **dict.fromkeys(("float32", "int32", "uint32"), 32),
        **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 64),
        "complex128": 128,
    }
)
"""Bits of one element, by type; strings, resources and variants have no fixed width."""

OPTIONS = (
    "fused_activation_function",
    "padding",
    "stride_h",
    "stride_w",
    "dilation_h_factor",
    "dilation_w_factor",
    "depth_multiplier",
    "filter_height",
    "filter_width",
    "axis",
    "beta",
    "keep_dims",
    "keep_num_dims",
    "weights_format",
    "align_corners",
    "half_pixel_centers",
    "begin_mask",
    "end_mask",
    "ellipsis_mask",
    "new_axis_mask",
    "shrink_axis_mask",
    "block_size",
    "mode",
    "num_splits",
    "asymmetric_quantize_inputs",
    "adj_x",
    "adj_y",
)
"""The numbers among an operator's builtin options that decide which kernels take it.

Rules of accelerators name them, so a name here is part of the format of
`device_profiles/accelerators/*.yaml`.
"""


@dataclass(frozen=True, slots=True)
class Quantization:
    """An affine mapping, per tensor or per slice along ``axis``.

    A real value is scale * (stored value - zero point).
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: an activation, or a constant when the file holds its content in ``buffer``.

    Names need not be unique. Dynamic dimensions appear as the file states them (1 or -1). The type
    is ``float32``, ``int8``, ... or ``type_<n>`` for one that this version does not know. The
    value of a variable outlives one run. The buffer of a sparse tensor holds a sparse encoding.
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
        """True if the file holds this tensor's content."""
        return len(self.buffer) > 0

    @property
    def is_weight(self) -> bool:
        """True if it is a constant of floats or of quantized numbers."""
        return self.is_constant and (
            self.dtype.startswith(("float", "bfloat")) or self.quantization is not None
        )

    @property
    def elements(self) -> int:
        """The number of elements; a dynamic dimension counts as 1."""
        return math.prod(1 if dimension < 0 else dimension for dimension in self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the dense tensor; 4 for each element if the type has no fixed width."""
        return (self.elements * BITS.get(self.dtype, 32) + 7) // 8

    def real_values(self) -> NDArray[np.float64] | None:
        """Return the dequantized values of a constant;
        None for a type that NumPy lacks (4 bits).
        """
        import numpy as np

        if self.dtype not in ("float32", "float16", "int8", "uint8", "int16", "int32", "int64"):
            return None
        dtype = np.dtype(self.dtype).newbyteorder("<")
        stored = np.frombuffer(self.buffer, dtype).reshape(self.shape)
        values: NDArray[np.float64] = stored.astype(np.float64)
        quantization = self.quantization
        if quantization is None or stored.dtype.kind == "f":
            return values
        shape = [1] * values.ndim
        if len(quantization.scales) > 1:
            shape[quantization.axis] = -1
        zeros = np.asarray(quantization.zero_points or (0,), np.float64)
        scales = np.asarray(quantization.scales, np.float64)
        return (values - zeros.reshape(shape)) * scales.reshape(shape)


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its builtin name (``CONV_2D``) or ``CUSTOM:<code>``, and its version.

    A runtime must know the version. Inputs and outputs are indices of tensors, -1 for an optional
    input that is absent. Options are those of ``OPTIONS`` that it has, by name.
    """

    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, float | str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph of operators over its own tensors, operators in the order of execution."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def expanded(self) -> dict[int, int]:
        """The stored constant of each tensor that a DEQUANTIZE expands, by its index.

        Such constants are float16, or weights of 8 bits.
        """
        sources = {}
        for operator in self.operators:
            if operator.name == "DEQUANTIZE" and len(operator.inputs) == 1 and operator.outputs:
                (source,) = operator.inputs
                if source >= 0 and self.tensors[source].is_constant:
                    sources[operator.outputs[0]] = source
        return sources


@dataclass(frozen=True, slots=True)
class Signature:
    """A named way to call a subgraph: (name, tensor index) of each input and output."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A `.tflite` file: its graphs, its signatures and its named bytes.

    The main graph comes first. Older files have no signatures.
    """

    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    metadata: Mapping[str, bytes] = field(repr=False, hash=False)
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

    @property
    def transposes(self) -> int:
        """Number of transposes in the main graph."""
        return sum(operator.name == TRANSPOSE for operator in self.operators)

    @property
    def transposed_share(self) -> float:
        """The share of transposes, 0 to 1, in the values that operators read and write."""
        moved = 0
        moved_by_transposes = 0
        for operator in self.operators:
            values = 0
            for index in (*operator.inputs, *operator.outputs):
                if index >= 0:
                    values += self.tensors[index].elements
            moved += values
            if operator.name == TRANSPOSE:
                moved_by_transposes += values
        return moved_by_transposes / max(moved, 1)

    def list_custom_operators(self, known: Collection[str] = ()) -> list[str]:
        """Return the operators that no builtin kernel runs, without the ``known`` ones, sorted."""
        names = set[str]()
        for graph in self.subgraphs:
            for operator in graph.operators:
                if operator.name.startswith(("CUSTOM", "DELEGATE")):
                    names.add(operator.name)
        return sorted(names.difference(known))


def slices_of(
    options: Mapping[str, Any], begin: Any, end: Any, steps: Any = None
) -> tuple[slice, ...]:
    """Return what a SLICE or a STRIDED_SLICE takes of each axis, by its ``options``.

    ``end`` is the size of a SLICE, which has no ``steps``; -1 reaches to the end.
    A bit of a mask takes a whole axis.
    """
    slices = []
    if steps is None:
        for start, size in zip(begin, end, strict=True):
            stop_index = None if size < 0 else start + size
            slices.append(slice(start, stop_index))
        return tuple(slices)
    begin_mask = int(options.get("begin_mask", 0))
    end_mask = int(options.get("end_mask", 0))
    for axis, (start, stop, step) in enumerate(zip(begin, end, steps, strict=True)):
        first = None if begin_mask >> axis & 1 else start
        last = None if end_mask >> axis & 1 else stop
        slices.append(slice(first, last, step))
    return tuple(slices)
