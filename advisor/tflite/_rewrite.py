"""Unpack a `.tflite` file into editable tables, change its graph, and pack them again.

All edits of the room, and makers of files in other rooms, are built on it. The tables are those of
the generated object API (``schema.ModelT``). Equal tables must give equal bytes: files are known
by their hash, and stages are cached by it.

Every edit of a file raises UsageError if it is damaged, and StageError if it cannot be edited:
most edits need exactly one subgraph and one signature. Descriptions (labels, normalization) are
dropped: they are written last.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from advisor.core import StageError, nearest
from advisor.tflite._model import BUILTINS, open_model, text_of
from advisor.tflite._verify import FILE_IDENTIFIER

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


def unpack(data: bytes, name: str = "the model") -> schema.ModelT:
    """Return the tables of a file (``schema.ModelT``) with all contents, without description.

    A damaged file is a UsageError, which calls it ``name``; see also :func:`make_editable`.
    """
    return make_editable(open_model(data, name)[0])


def make_editable(model: schema.ModelT) -> schema.ModelT:
    """Return the tables of a file without its description, to be edited.

    StageError is raised for an operator whose options this version does not know and would lose.
    """
    model.metadata = [entry for entry in model.metadata if entry.name != DESCRIBING_METADATA]
    # Old files have the number in the other field only, and the quantizer reads this.
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    for graph in model.subgraphs:
        for operator in graph.operators:
            _require_known_options(operator)
    return model


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


def pack(model: schema.ModelT) -> bytes:
    """Return the file of ``model`` (``schema.ModelT``), buffers aligned as the schema demands."""
    model.buffers = [_AlignedBuffer(data=_read_content(buffer)) for buffer in model.buffers]
    # With enough room from the start: the builder grows by copying all that it has.
    room = sum(len(buffer.data) for buffer in model.buffers if buffer.data is not None)
    builder = flatbuffers.Builder(room + room // 16 + 65_536)
    builder.Finish(model.Pack(builder), file_identifier=FILE_IDENTIFIER)
    return bytes(builder.Output())


def _read_content(buffer: schema.BufferT) -> Any:
    if buffer.data is None or len(buffer.data) == 0:
        return None
    return buffer.data


def single_graph(model: schema.ModelT) -> tuple[schema.SubGraphT, schema.SignatureDefT]:
    """Return the only subgraph and the only signature; StageError if there are more or none."""
    if len(model.subgraphs) != 1:
        raise StageError(f"the model has {len(model.subgraphs)} subgraphs, and one can be edited")
    if len(model.signatureDefs) != 1:
        raise StageError(
            f"the model has {len(model.signatureDefs)} signatures, and exactly one is needed"
        )
    return model.subgraphs[0], model.signatureDefs[0]


def replace_signature(
    model: schema.ModelT, graph: schema.SubGraphT, input_name: str, outputs: Mapping[str, int]
) -> None:
    """Replace all signatures by one of the only input and of ``outputs``.

    ``outputs`` become the outputs of the graph, in their order.
    """
    if len(graph.inputs) != 1:
        raise StageError(f"the model has {len(graph.inputs)} inputs")
    signature = schema.SignatureDefT(signatureKey=_SIGNATURE, subgraphIndex=0)
    signature.inputs = _tensor_maps({input_name: int(graph.inputs[0])})
    signature.outputs = _tensor_maps(outputs)
    model.signatureDefs = [signature]
    graph.outputs = list(outputs.values())


def _tensor_maps(indices: Mapping[str, int]) -> list[Any]:
    return [
        schema.TensorMapT(name=name.encode(), tensorIndex=index) for name, index in indices.items()
    ]


def operator_code(model: schema.ModelT, builtin: int, version: int) -> int:
    """Return the index of an operator code; add it to ``model`` if it is missing."""
    for index, code in enumerate(model.operatorCodes):
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        if (number, code.version) == (builtin, version):
            return index
    code = schema.OperatorCodeT(builtinCode=builtin, version=version)
    code.deprecatedBuiltinCode = min(builtin, _PLACEHOLDER_CODE)
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def operator_name(model: schema.ModelT, operator: schema.OperatorT) -> str:
    """Return the name of a builtin operator (``CONV_2D``); empty for an unknown one."""
    code = model.operatorCodes[operator.opcodeIndex]
    return BUILTINS.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")


def index_makers(graph: schema.SubGraphT) -> dict[int, schema.OperatorT]:
    """Return the operator that makes each tensor, by the tensor's index.

    Inputs and constants have none.
    """
    makers = {}
    for operator in graph.operators:
        for tensor in operator.outputs:
            makers[int(tensor)] = operator
    return makers


def new_operator(
    model: schema.ModelT,
    builtin: int,
    inputs: list[int],
    output: int,
    options: object = None,
    version: int = 1,
) -> schema.OperatorT:
    """Return an operator over tensors of a graph; ``options`` is its table in the schema."""
    operator = schema.OperatorT(inputs=inputs, outputs=[output])
    operator.opcodeIndex = operator_code(model, builtin, version)
    if options is not None:
        operator.builtinOptions = options
        operator.builtinOptionsType = getattr(
            schema.BuiltinOptions, type(options).__name__.removesuffix("T")
        )
    return operator


def append_operator(
    model: schema.ModelT,
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
    result = add_tensor(model, graph, name, shape, schema.TensorType.FLOAT32)
    graph.operators.append(new_operator(model, builtin, list(inputs), result, options, version))
    return result


def content_of(model: schema.ModelT, tensor: schema.TensorT) -> Any:
    """Return the bytes of a constant as an array, None for an activation."""
    return _read_content(model.buffers[tensor.buffer])


def add_buffer(model: schema.ModelT, content: bytes | None) -> int:
    """Add a buffer with ``content``, or an empty one for an activation; return its index."""
    data = None
    if content is not None:
        data = np.frombuffer(content, dtype=np.uint8)
    model.buffers.append(schema.BufferT(data=data))
    return len(model.buffers) - 1


def add_tensor(
    model: schema.ModelT,
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
        buffer=add_buffer(model, content),
        quantization=schema.QuantizationParametersT(),
        hasRank=True,
    )
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def float_stand_in(
    model: schema.ModelT,
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
    float_index = add_tensor(model, graph, float_name, tensor.shape, schema.TensorType.FLOAT32)
    for entry in entries or []:
        if entry.tensorIndex == index:
            entry.tensorIndex = float_index
    return float_index


def add_metadata(model: schema.ModelT, name: bytes, content: bytes) -> None:
    """Set the metadata entry ``name`` to ``content``."""
    model.metadata = [entry for entry in model.metadata if entry.name != name]
    model.metadata.append(schema.MetadataT(name=name, buffer=add_buffer(model, content)))


def drop_unused_buffers(model: schema.ModelT) -> None:
    """Remove unused buffers but buffer 0, which the format reserves as the empty one."""
    owners = list(model.metadata)
    for graph in model.subgraphs:
        owners += graph.tensors
    places = _new_places({0, *(owner.buffer for owner in owners)}, len(model.buffers))
    model.buffers = [buffer for index, buffer in enumerate(model.buffers) if index in places]
    for owner in owners:
        owner.buffer = places[owner.buffer]


def _new_places(used: Iterable[int], count: int) -> dict[int, int]:
    """Return the new index of each old index below ``count`` that stays."""
    staying = sorted(index for index in set(used) if 0 <= index < count)
    return {old: new for new, old in enumerate(staying)}


def _move_indices(indices: Iterable[int] | None, places: Mapping[int, int]) -> list[int] | None:
    if indices is None:
        return None
    return [places.get(int(index), -1) for index in indices]


def prune_graph(model: schema.ModelT, graph: schema.SubGraphT) -> None:
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
    codes = _new_places({operator.opcodeIndex for operator in live}, len(model.operatorCodes))
    model.operatorCodes = [
        code for index, code in enumerate(model.operatorCodes) if index in codes
    ]
    for operator in live:
        operator.intermediates = _move_indices(operator.intermediates, places)
        operator.opcodeIndex = codes[operator.opcodeIndex]
    for signature in model.signatureDefs:
        for entry in (*(signature.inputs or []), *signature.outputs):
            entry.tensorIndex = places[entry.tensorIndex]
    drop_unused_buffers(model)


def select_output(data: bytes, name: str) -> bytes:
    """Keep every input and the output ``name`` of the signature; remove what it does not need.

    StageError is raised if the file has no such output.
    """
    model = unpack(data)
    graph, signature = single_graph(model)
    entries = []
    for entry in signature.outputs or []:
        if entry.name == name.encode():
            entries.append(entry)
    if not entries:
        names = [text_of(entry.name) for entry in signature.outputs or []]
        raise StageError(
            f"the model has no output '{name}'{nearest(name, names)}",
            f"It has: {', '.join(names)}.",
        )
    signature.outputs = entries[:1]
    graph.outputs = [entries[0].tensorIndex]
    prune_graph(model, graph)
    return pack(model)


def operator_alone(tables: schema.ModelT, index: int) -> tuple[bytes, tuple[int, ...]]:
    """Return a file of operator ``index`` of the main graph, and the inputs that it reads.

    The operators that expand its constants are in it too. Its inputs and outputs are those of the
    operator. The second value names the inputs' tensors in ``tables``, which :func:`unpack` gave,
    and which stay as they are.
    """

    def is_stored(tensor: int) -> bool:
        return content_of(tables, graph.tensors[tensor]) is not None

    graph = tables.subgraphs[0]
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
    file = copy.copy(tables)
    small.tensors = list(map(copy.copy, graph.tensors))
    small.operators = list(map(copy.copy, (*expanding, operator)))
    small.inputs = list(inputs)
    small.outputs = list(operator.outputs)
    file.subgraphs = [small]
    # They name tensors that the cut file may not have.
    file.signatureDefs = []
    file.metadata = []
    prune_graph(file, small)
    return pack(file), inputs
