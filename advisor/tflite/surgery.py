"""Edit a model's graph: keep one output or one operator, or append a classifier's head to pooled features."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core.errors import StageError, nearest
from advisor.tflite.rewrite import (
    add_tensor,
    append_operator,
    content_of,
    drop_unused_buffers,
    new_places,
    operator_code,
    operator_name,
    pack,
    single_graph,
    unpack,
)

FEATURES = "features"
PROBABILITIES = "probabilities"

_NO_INPUT = -1


def select_output(data: bytes, name: str) -> bytes:
    """Keep only the signature output ``name``; remove every operator, tensor and buffer that it does not need.

    Inputs stay, also those no longer used. Descriptions (labels, normalization) are dropped: they are written last.

    Raises:
        UsageError: the file is damaged.
        StageError: no such output, or not exactly one subgraph and one signature.
    """
    model = unpack(data)
    graph, signature = single_graph(model)
    kept = [entry for entry in signature.outputs or [] if entry.name == name.encode()]
    if not kept:
        names = [(entry.name or b"").decode("utf-8", "replace") for entry in signature.outputs or []]
        raise StageError(f"the model has no output '{name}'{nearest(name, names)}", f"It has: {', '.join(names)}.")
    signature.outputs = kept[:1]
    graph.outputs = [kept[0].tensorIndex]
    prune(model, graph, signature)
    return pack(model)


def prune(model: schema.ModelT, graph: schema.SubGraphT, signature: schema.SignatureDefT) -> None:
    """Remove every operator, tensor and buffer that the outputs of ``graph`` do not need; inputs stay."""
    graph.operators = _live_operators(graph)
    _keep_tensors(graph, signature)
    drop_unused_buffers(model)
    _keep_codes(model, graph)


def _live_operators(graph: schema.SubGraphT) -> list[schema.OperatorT]:
    """Return the operators that an output depends on, in their order."""
    needed = set(graph.outputs)
    live = []
    for operator in reversed(graph.operators):
        if needed.intersection(operator.outputs):
            live.append(operator)
            needed.update(operator.inputs)
    return live[::-1]


def _keep_tensors(graph: schema.SubGraphT, signature: schema.SignatureDefT) -> None:
    used: set[int] = {*graph.inputs, *graph.outputs}
    for operator in graph.operators:
        used.update(operator.inputs, operator.outputs, _intermediates(operator))
    places = new_places(used, len(graph.tensors))
    graph.tensors = [tensor for index, tensor in enumerate(graph.tensors) if index in places]
    graph.inputs = _moved(graph.inputs, places)
    graph.outputs = _moved(graph.outputs, places)
    for operator in graph.operators:
        operator.inputs = _moved(operator.inputs, places)
        operator.outputs = _moved(operator.outputs, places)
        if operator.intermediates is not None:
            operator.intermediates = _moved(_intermediates(operator), places)
    for entry in (*(signature.inputs or []), *signature.outputs):
        entry.tensorIndex = places[entry.tensorIndex]


def _intermediates(operator: schema.OperatorT) -> list[int]:
    return [] if operator.intermediates is None else [int(index) for index in operator.intermediates]


def _keep_codes(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    places = new_places({operator.opcodeIndex for operator in graph.operators}, len(model.operatorCodes))
    model.operatorCodes = [code for index, code in enumerate(model.operatorCodes) if index in places]
    for operator in graph.operators:
        operator.opcodeIndex = places[operator.opcodeIndex]


def _moved(indices: Iterable[int], places: dict[int, int]) -> list[int]:
    return [places.get(index, -1) for index in indices]


def attach_head(data: bytes, weights: npt.NDArray[np.floating], bias: npt.NDArray[np.floating]) -> bytes:
    """Append a linear classifier and a softmax to a model of pooled features, without the levels that it does not read.

    Args:
        data: a float model whose only output is ``features``, of shape (1, F), also one put together from parts.
        weights: (F, C), finite.
        bias: (C,), finite.

    Returns:
        The model with the single output ``probabilities``, of shape (1, C).

    Raises:
        UsageError: the file is damaged.
        StageError: the model is not such a features model, or the head does not fit it.
    """
    model = unpack(data)
    graph, signature = single_graph(model)
    features = _features(graph, signature)
    kernel, offset = _head(weights, bias, _width(graph.tensors[features]))
    logits = _logits(model, graph, _parts(model, graph, features), kernel, offset)
    softmax, name, shape = schema.SoftmaxOptionsT(beta=1.0), f"head/{PROBABILITIES}", (1, len(offset))
    output = append_operator(model, graph, schema.BuiltinOperator.SOFTMAX, [logits], name, shape, softmax)
    graph.outputs = [output]
    signature.outputs[0].name = PROBABILITIES.encode()
    signature.outputs[0].tensorIndex = output
    prune(model, graph, signature)
    return pack(model)


def _parts(model: schema.ModelT, graph: schema.SubGraphT, features: int) -> list[int]:
    """Return the vectors that ``features`` concatenates, or itself.

    A head on each and their sum is the same head. Quantized, each part keeps a scale of its own: one scale for all
    would round the smaller ones away.
    """
    for operator in graph.operators:
        if operator_name(model, operator) == "CONCATENATION" and features in operator.outputs:
            parts = [int(index) for index in operator.inputs]
            if all(graph.tensors[part].shape is not None and len(graph.tensors[part].shape) == 2 for part in parts):
                return parts
    return [features]


def _logits(
    model: schema.ModelT,
    graph: schema.SubGraphT,
    parts: list[int],
    kernel: npt.NDArray[np.floating],
    offset: npt.NDArray[np.floating],
) -> int:
    """Add a fully connected operator for each part and sum them up; return the tensor of the sum, (1, C)."""
    operator, float32, classes = schema.BuiltinOperator, schema.TensorType.FLOAT32, len(offset)
    shape = (1, classes)
    total, start = -1, 0
    for number, part in enumerate(parts):
        mark = f"/{number}" if number else ""
        columns = np.ascontiguousarray(kernel[:, start : start + _width(graph.tensors[part])])
        start += columns.shape[1]
        if number and not columns.any():
            continue
        shift = offset if number == 0 else np.zeros_like(offset)
        kernel_index = add_tensor(model, graph, f"head/weights{mark}", columns.shape, float32, columns.tobytes())
        bias_index = add_tensor(model, graph, f"head/bias{mark}", (classes,), float32, shift.tobytes())
        inputs, options = [part, kernel_index, bias_index], schema.FullyConnectedOptionsT()
        logits = append_operator(model, graph, operator.FULLY_CONNECTED, inputs, f"head/logits{mark}", shape, options)
        if number == 0:
            total = logits
        else:
            inputs, options = [total, logits], schema.AddOptionsT()
            total = append_operator(model, graph, operator.ADD, inputs, f"head/sum{mark}", shape, options)
    return total


def _features(graph: schema.SubGraphT, signature: schema.SignatureDefT) -> int:
    names = [entry.name for entry in signature.outputs or []]
    if names != [FEATURES.encode()] or graph.outputs != [signature.outputs[0].tensorIndex]:
        raise StageError(f"a head needs a model whose only output is '{FEATURES}', and this one has {names}")
    return int(graph.outputs[0])


def _width(tensor: schema.TensorT) -> int:
    shape = [] if tensor.shape is None else [int(dimension) for dimension in tensor.shape]
    if tensor.type != schema.TensorType.FLOAT32 or len(shape) != 2 or shape[0] != 1 or shape[1] < 1:
        raise StageError(f"a head needs float32 features of shape (1, F), and these are {tuple(shape)}")
    return shape[1]


def _head(
    weights: npt.NDArray[np.floating], bias: npt.NDArray[np.floating], width: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the kernel in the runtime's layout, (C, F), and the bias (C,)."""
    if weights.ndim != 2 or weights.shape[0] != width or bias.shape != weights.shape[1:] or not bias.size:
        raise StageError(f"a head of {weights.shape} and {bias.shape} does not fit {width} features")
    kernel = np.ascontiguousarray(weights.T, dtype="<f4")
    offset = np.ascontiguousarray(bias, dtype="<f4")
    if not (np.isfinite(kernel).all() and np.isfinite(offset).all()):
        raise StageError("the head's weights are not finite")
    return kernel, offset


def operator_alone(tables: schema.ModelT, index: int) -> tuple[bytes, tuple[int, ...]]:
    """Return a file with one operator of the main graph and the operators that expand its constants.

    Args:
        tables: the file's tables as ``rewrite.unpack`` gives them; they are not changed.
        index: the operator's place in the main graph.

    Returns:
        The file, its inputs and outputs those of the operator, and the inputs' tensor indices in the given tables.
    """
    graph = tables.subgraphs[0]
    operators = [*_preparing(tables, graph, graph.operators[index]), graph.operators[index]]
    made = {tensor for operator in operators[:-1] for tensor in operator.outputs}
    taken = [tensor for tensor in operators[-1].inputs if tensor != _NO_INPUT and tensor not in made]
    inputs = tuple(tensor for tensor in dict.fromkeys(taken) if content_of(tables, graph.tensors[tensor]) is None)
    file = _single(tables, graph, operators, inputs, operators[-1].outputs)
    return pack(file), inputs


def _preparing(tables: schema.ModelT, graph: schema.SubGraphT, operator: schema.OperatorT) -> list[schema.OperatorT]:
    """Return the operators that expand constants for this one, such as DEQUANTIZE of stored weights."""
    makers = {tensor: maker for maker in graph.operators for tensor in maker.outputs}
    found = [makers[tensor] for tensor in operator.inputs if tensor in makers]
    return [
        maker
        for maker in found
        if all(content_of(tables, graph.tensors[tensor]) is not None for tensor in maker.inputs)
    ]


def _single(
    tables: schema.ModelT,
    graph: schema.SubGraphT,
    operators: list[schema.OperatorT],
    inputs: Iterable[int],
    outputs: Iterable[int],
) -> schema.ModelT:
    used = sorted({tensor for one in operators for tensor in (*one.inputs, *one.outputs)} - {_NO_INPUT})
    places = {tensor: place for place, tensor in enumerate(used)} | {_NO_INPUT: _NO_INPUT}
    buffers = [schema.BufferT()]
    small = schema.SubGraphT()
    small.tensors = [_copied(tables, graph.tensors[index], buffers) for index in used]
    small.operators = [_renumbered(operator, places) for operator in operators]
    small.inputs = [places[tensor] for tensor in inputs]
    small.outputs = [places[tensor] for tensor in outputs]
    file = schema.ModelT()
    file.version, file.operatorCodes = tables.version, tables.operatorCodes
    file.subgraphs, file.buffers = [small], buffers
    return file


def _copied(tables: schema.ModelT, tensor: schema.TensorT, buffers: list[schema.BufferT]) -> schema.TensorT:
    """Return a copy of the tensor, with its content in a new buffer of ``buffers``; buffer 0 is empty."""
    made = copy.copy(tensor)
    content = content_of(tables, tensor)
    made.buffer = 0
    if content is not None:
        made.buffer = len(buffers)
        buffers.append(schema.BufferT(data=content))
    return made


def _renumbered(operator: schema.OperatorT, places: dict[int, int]) -> schema.OperatorT:
    made = copy.copy(operator)
    made.inputs = [places[tensor] for tensor in operator.inputs]
    made.outputs = [places[tensor] for tensor in operator.outputs]
    made.intermediates = None
    return made


_KINDS = schema.ActivationFunctionType
_ACTIVATIONS: Mapping[str, int] = MappingProxyType({"RELU": _KINDS.RELU, "RELU6": _KINDS.RELU6})
_TAKE_ACTIVATION = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL"})


def simplified(data: bytes) -> bytes:
    """Return a file of another converter with activations and paddings as TensorFlow's converter writes them.

    Raises:
        UsageError: the file is damaged.
        StageError: not exactly one subgraph and one signature.
    """
    model = unpack(data, "the model")
    graph, signature = single_graph(model)
    _fuse_activations(model, graph)
    _pad_with_zeros(model, graph)
    prune(model, graph, signature)
    return pack(model)


def _fuse_activations(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    """Make an activation part of the operator before it, whose result nobody else reads."""
    makers = {int(tensor): operator for operator in graph.operators for tensor in operator.outputs}
    read_by = Counter(int(tensor) for operator in graph.operators for tensor in operator.inputs)
    read_by.update(int(tensor) for tensor in graph.outputs)
    left = []
    for operator in graph.operators:
        kind = _ACTIVATIONS.get(operator_name(model, operator))
        maker = makers.get(int(operator.inputs[0])) if kind is not None else None
        if maker is None or read_by[int(operator.inputs[0])] > 1 or not _takes_activation(model, maker):
            left.append(operator)
            continue
        maker.builtinOptions.fusedActivationFunction = kind
        maker.outputs = operator.outputs
        makers[int(operator.outputs[0])] = maker
    graph.operators = left


def _pad_with_zeros(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    """Pad the input of a max-pooling with zeros where it has no negative values, in place of the lowest number.

    The largest values stay the same. The quantizer refuses the other operator, whose range would leave no digits.
    """
    makers = {int(tensor): operator for operator in graph.operators for tensor in operator.outputs}
    for operator in graph.operators:
        if operator_name(model, operator) != "PADV2":
            continue
        source, padded = int(operator.inputs[0]), int(operator.outputs[0])
        readers = [operator_name(model, one) for one in graph.operators if padded in one.inputs]
        if source in makers and _is_positive(model, makers[source]) and set(readers) == {"MAX_POOL_2D"}:
            operator.inputs = operator.inputs[:2]
            operator.opcodeIndex = operator_code(model, schema.BuiltinOperator.PAD, 1)
            operator.builtinOptions = schema.PadOptionsT()
            operator.builtinOptionsType = schema.BuiltinOptions.PadOptions


def _is_positive(model: schema.ModelT, operator: schema.OperatorT) -> bool:
    """Return whether an operator never gives a negative value."""
    fused = getattr(operator.builtinOptions, "fusedActivationFunction", _KINDS.NONE)
    return fused in _ACTIVATIONS.values() or operator_name(model, operator) in _ACTIVATIONS


def _takes_activation(model: schema.ModelT, operator: schema.OperatorT) -> bool:
    fused = operator_name(model, operator) in _TAKE_ACTIVATION
    return fused and operator.builtinOptions.fusedActivationFunction == _KINDS.NONE
