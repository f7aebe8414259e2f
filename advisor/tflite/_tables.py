"""The editable tables of a `.tflite` file, and the changes that edits are made of.

The tables are those of the generated object API (``schema.ModelT``), as :func:`.open_model` and
:func:`.unpack` give them. Equal tables must give equal bytes: files are known by their hash, and
stages are cached by it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from advisor.core import StageError
from advisor.tflite._schema_names import list_names
from advisor.tflite._verify import FILE_IDENTIFIER

BUILTINS = list_names(schema.BuiltinOperator)
"""The names of the builtin operators by their numbers."""


DESCRIBING_METADATA = b"TFLITE_METADATA"
"""Entry that describes inputs and outputs; its files (labels) are behind the flatbuffer."""

_SIGNATURE = b"serving_default"
"""The converter's name for a single signature."""

_ALIGNMENT = 16
"""Alignment of a buffer's content in the schema, as runtimes read weights in place."""

_PLACEHOLDER_CODE = 127
"""The value of the one-byte field of an operator code that does not fit into it."""


class _AlignedBuffer(schema.BufferT):  # type: ignore[misc]
    """A buffer that is written with the alignment that the generated writer leaves out."""

    def Pack(self, builder: Any) -> Any:  # noqa: N802 - the name that the generated writer calls
        if self.data is None:
            schema.BufferStart(builder)
            return schema.BufferEnd(builder)
        content = np.ascontiguousarray(self.data, dtype=np.uint8).tobytes()
        builder.StartVector(1, len(content), _ALIGNMENT)
        builder.head = builder.head - len(content)
        builder.Bytes[builder.head : builder.head + len(content)] = content
        data = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, data)
        return schema.BufferEnd(builder)


class Tables(schema.ModelT):  # type: ignore[misc]
    """The tables of a file, which its methods and its users change."""

    # The generated reader and writer set these, None for what a file leaves out.
    buffers: Any
    metadata: Any
    operatorCodes: Any  # noqa: N815 - the generated name
    signatureDefs: Any  # noqa: N815 - the generated name
    subgraphs: Any

    def make_editable(self) -> Tables:
        """Return the tables of a file without its description, to be edited.

        StageError is raised for an operator whose options this version does not know and would
        lose.
        """
        self.metadata = [entry for entry in self.metadata if entry.name != DESCRIBING_METADATA]
        # Old files have the number in the other field only, and the quantizer reads this.
        for code in self.operatorCodes:
            code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
        for graph in self.subgraphs:
            for operator in graph.operators:
                _require_known_options(operator)
        return self

    def pack(self) -> bytes:
        """Return the file of the tables, buffers aligned as the schema demands."""
        self.buffers = [_AlignedBuffer(data=_read_content(buffer)) for buffer in self.buffers]
        # With enough room from the start: the builder grows by copying all that it has.
        room = sum(len(buffer.data) for buffer in self.buffers if buffer.data is not None)
        builder = flatbuffers.Builder(room + room // 16 + 65_536)
        builder.Finish(self.Pack(builder), file_identifier=FILE_IDENTIFIER)
        return bytes(builder.Output())

    def find_single_graph(self) -> tuple[schema.SubGraphT, schema.SignatureDefT]:
        """Return the only subgraph and signature; StageError if there are more or none."""
        if len(self.subgraphs) != 1:
            raise StageError(
                f"the model has {len(self.subgraphs)} subgraphs, and one can be edited"
            )
        if len(self.signatureDefs) != 1:
            raise StageError(
                f"the model has {len(self.signatureDefs)} signatures, and exactly one is needed"
            )
        return self.subgraphs[0], self.signatureDefs[0]

    def replace_signature(
        self, graph: schema.SubGraphT, input_name: str, outputs: Mapping[str, int]
    ) -> None:
        """Replace all signatures by one of the only input and of ``outputs``.

        ``outputs`` become the outputs of the graph, in their order.
        """
        if len(graph.inputs) != 1:
            raise StageError(f"the model has {len(graph.inputs)} inputs")
        signature = schema.SignatureDefT(signatureKey=_SIGNATURE, subgraphIndex=0)
        signature.inputs = _tensor_maps({input_name: int(graph.inputs[0])})
        signature.outputs = _tensor_maps(outputs)
        self.signatureDefs = [signature]
        graph.outputs = list(outputs.values())

    def find_operator_code(self, builtin: int, version: int) -> int:
        """Return the index of an operator code; add it if it is missing."""
        for index, code in enumerate(self.operatorCodes):
            number = max(code.builtinCode, code.deprecatedBuiltinCode)
            if (number, code.version) == (builtin, version):
                return index
        code = schema.OperatorCodeT(builtinCode=builtin, version=version)
        code.deprecatedBuiltinCode = min(builtin, _PLACEHOLDER_CODE)
        self.operatorCodes.append(code)
        return len(self.operatorCodes) - 1

    def name_operator(self, operator: schema.OperatorT) -> str:
        """Return the name of a builtin operator (``CONV_2D``); empty for an unknown one."""
        code = self.operatorCodes[operator.opcodeIndex]
        return BUILTINS.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")

    def make_operator(
        self,
        builtin: int,
        inputs: list[int],
        output: int,
        options: object = None,
        version: int = 1,
    ) -> schema.OperatorT:
        """Return an operator over tensors of a graph; ``options`` is its table in the schema."""
        operator = schema.OperatorT(inputs=inputs, outputs=[output])
        operator.opcodeIndex = self.find_operator_code(builtin, version)
        if options is not None:
            operator.builtinOptions = options
            operator.builtinOptionsType = getattr(
                schema.BuiltinOptions, type(options).__name__.removesuffix("T")
            )
        return operator

    def append_operator(
        self,
        graph: schema.SubGraphT,
        builtin: int,
        inputs: Sequence[int],
        name: str,
        shape: Iterable[int],
        options: object = None,
        version: int = 1,
    ) -> int:
        """Add an operator at the end of ``graph``; return the index of its float32 result.

        The result is a new tensor with ``name`` and ``shape``.
        """
        result = self.add_tensor(graph, name, shape, schema.TensorType.FLOAT32)
        graph.operators.append(self.make_operator(builtin, list(inputs), result, options, version))
        return result

    def read_content(self, tensor: schema.TensorT) -> Any:
        """Return the bytes of a constant as an array, None for an activation."""
        return _read_content(self.buffers[tensor.buffer])

    def add_buffer(self, content: bytes | None) -> int:
        """Add a buffer with ``content``, or an empty one for an activation; return its index."""
        data = None
        if content is not None:
            data = np.frombuffer(content, dtype=np.uint8)
        self.buffers.append(schema.BufferT(data=data))
        return len(self.buffers) - 1

    def add_tensor(
        self,
        graph: schema.SubGraphT,
        name: str | bytes,
        shape: Iterable[int] | None,
        dtype: int,
        content: bytes | None = None,
    ) -> int:
        """Add a tensor to ``graph``, a constant if ``content`` is given; return its index."""
        dimensions = None
        if shape is not None:
            dimensions = np.asarray(shape, dtype=np.int32)
        tensor = schema.TensorT(
            name=name.encode() if isinstance(name, str) else name,
            shape=dimensions,
            type=dtype,
            buffer=self.add_buffer(content),
            quantization=schema.QuantizationParametersT(),
            hasRank=True,
        )
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    def add_float_stand_in(
        self,
        graph: schema.SubGraphT,
        index: int,
        entries: list[schema.TensorMapT],
        name: str = "",
    ) -> int:
        """Add a float32 tensor in place of tensor ``index``; return its index.

        It takes that place in ``entries`` of a signature only: the caller connects the operators.
        """
        tensor = graph.tensors[index]
        float_name = name or (tensor.name or b"") + b"_float32"
        float_index = self.add_tensor(graph, float_name, tensor.shape, schema.TensorType.FLOAT32)
        for entry in entries or []:
            if entry.tensorIndex == index:
                entry.tensorIndex = float_index
        return float_index

    def add_metadata(self, name: bytes, content: bytes) -> None:
        """Set the metadata entry ``name`` to ``content``."""
        self.metadata = [entry for entry in self.metadata if entry.name != name]
        self.metadata.append(schema.MetadataT(name=name, buffer=self.add_buffer(content)))

    def drop_unused_buffers(self) -> None:
        """Remove unused buffers but buffer 0, which the format reserves as the empty one."""
        owners = list(self.metadata)
        for graph in self.subgraphs:
            owners += graph.tensors
        places = _new_places({0, *(owner.buffer for owner in owners)}, len(self.buffers))
        self.buffers = [buffer for index, buffer in enumerate(self.buffers) if index in places]
        for owner in owners:
            owner.buffer = places[owner.buffer]

    def prune_tensors(self, graph: schema.SubGraphT) -> None:
        """Remove operators, tensors, buffers and codes that no output of the only graph needs.

        Inputs stay. Indices of tensors change, so the caller must not keep any.
        """
        needed = set(graph.outputs)
        live = list[schema.OperatorT]()
        # Backwards: an operator is needed if a later one is that reads it.
        for operator in reversed(graph.operators):
            if needed.intersection(operator.outputs):
                live.insert(0, operator)
                needed.update(operator.inputs)
        graph.operators = live
        used = {*graph.inputs, *graph.outputs}
        for operator in live:
            # Intermediates are internal to an operator: they flow neither in nor out.
            intermediates = () if operator.intermediates is None else operator.intermediates
            used.update(operator.inputs, operator.outputs, intermediates)
        # Missing optional inputs have the index -1, which stays -1.
        places = _new_places(used, len(graph.tensors))
        graph.tensors = [tensor for index, tensor in enumerate(graph.tensors) if index in places]
        for owner in (graph, *live):
            owner.inputs = _move_indices(owner.inputs, places)
            owner.outputs = _move_indices(owner.outputs, places)
        codes = _new_places({operator.opcodeIndex for operator in live}, len(self.operatorCodes))
        self.operatorCodes = [
            code for index, code in enumerate(self.operatorCodes) if index in codes
        ]
        for operator in live:
            operator.intermediates = _move_indices(operator.intermediates, places)
            operator.opcodeIndex = codes[operator.opcodeIndex]
        for signature in self.signatureDefs:
            for entry in (*(signature.inputs or []), *signature.outputs):
                entry.tensorIndex = places[entry.tensorIndex]
        self.drop_unused_buffers()

    def cut_operator(self, index: int) -> tuple[bytes, tuple[int, ...]]:
        """Return a file of operator ``index`` of the main graph, and the inputs that it reads.

        The operators that expand its constants are in it too. Its inputs and outputs are those of
        the operator. The second value names the inputs' tensors in these tables, which
        stay as they are.
        """

        def is_stored(tensor: int) -> bool:
            return self.read_content(graph.tensors[tensor]) is not None

        graph = self.subgraphs[0]
        operator = graph.operators[index]
        makers = index_makers(graph)
        expanding = list[schema.OperatorT]()
        # -1 stands for an optional input that is missing.
        expanded = {-1}
        for tensor in operator.inputs:
            maker = makers.get(tensor)
            if maker is not None and all(map(is_stored, maker.inputs)):
                expanding.append(maker)
                expanded.update(maker.outputs)
        sources = []
        for tensor in dict.fromkeys(operator.inputs):
            if tensor not in expanded and not is_stored(tensor):
                sources.append(tensor)
        inputs = tuple(sources)
        # Shallow copies: editing the cut file must not change the tables,
        # which other operators are cut from.
        small = copy.copy(graph)
        file = copy.copy(self)
        small.tensors = list(map(copy.copy, graph.tensors))
        small.operators = list(map(copy.copy, (*expanding, operator)))
        small.inputs = list(inputs)
        small.outputs = list(operator.outputs)
        file.subgraphs = [small]
        # They name tensors that the cut file may not have.
        file.signatureDefs = []
        file.metadata = []
        file.prune_tensors(small)
        return file.pack(), inputs


def _require_known_options(operator: schema.OperatorT) -> None:
    # The type says that options are there.
    # If the schema here has no such table, writing would drop them silently.
    unknown = operator.builtinOptionsType and operator.builtinOptions is None
    unknown_too = operator.builtinOptions2Type and operator.builtinOptions2 is None
    if unknown or unknown_too or operator.largeCustomOptionsOffset:
        raise StageError(
            "the model has an operator whose options cannot be carried over",
            "It was made by a newer converter than this version knows.",
        )


def _read_content(buffer: schema.BufferT) -> Any:
    if buffer.data is None or len(buffer.data) == 0:
        return None
    return buffer.data


def _tensor_maps(indices: Mapping[str, int]) -> list[Any]:
    return [
        schema.TensorMapT(name=name.encode(), tensorIndex=index) for name, index in indices.items()
    ]


def index_makers(graph: schema.SubGraphT) -> dict[int, schema.OperatorT]:
    """Return the operator that makes each tensor, by the tensor's index.

    Inputs and constants have none.
    """
    makers = {}
    for operator in graph.operators:
        for tensor in operator.outputs:
            makers[int(tensor)] = operator
    return makers


def _new_places(used: Iterable[int], count: int) -> dict[int, int]:
    """Return the new index of each old index below ``count`` that stays."""
    staying = sorted(index for index in set(used) if 0 <= index < count)
    return {old: new for new, old in enumerate(staying)}


def _move_indices(indices: Iterable[int] | None, places: Mapping[int, int]) -> list[int] | None:
    if indices is None:
        return None
    return [places.get(int(index), -1) for index in indices]
