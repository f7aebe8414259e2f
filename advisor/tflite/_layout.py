"""Make files of other converters as TensorFlow's converter writes them:
transposes, activations, paddings.

Transposes go by computing in NHWC what such files compute in NCHW. Every tensor in NCHW that is a
transposed one in NHWC has that one as its counterpart. An operator whose inputs have counterparts
runs on these, with its axes moved; behind it stands a transpose for those that still want its
result in NCHW. Those that nobody needs are removed at the end, and a file that would not have
fewer transposes stays as it is.
"""

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.tflite._model import Model, read, text_of
from advisor.tflite._rewrite import (
    add_tensor,
    content_of,
    index_makers,
    new_operator,
    operator_code,
    operator_name,
    pack,
    prune_graph,
    single_graph,
    unpack,
)

TRANSPOSE = "TRANSPOSE"
TO_NCHW = (0, 3, 1, 2)
TO_NHWC = (0, 2, 3, 1)
"""The order of the old dimensions in the new ones."""

_FLOAT32 = schema.TensorType.FLOAT32
_INT32 = schema.TensorType.INT32
_IMAGE_RANK = 4
_POINTWISE = frozenset(
    {
        *(
            "RELU",
            "RELU6",
            "RELU_0_TO_1",
            "RELU_N1_TO_1",
            "LEAKY_RELU",
            "PRELU",
            "ELU",
            "GELU",
            "HARD_SWISH",
        ),
        *("LOGISTIC", "TANH", "EXP", "LOG", "ABS", "NEG", "SQRT", "RSQRT", "SQUARE"),
        *("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "POW", "SQUARED_DIFFERENCE"),
    }
)
# Constant inputs with one row or entry for each dimension, by operator.
_BY_DIMENSION: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"SLICE": (1, 2), "PAD": (1,), "PADV2": (1,), "MIRROR_PAD": (1,)}
)
_REDUCING = frozenset({"MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"})
# Operators whose axis is an option, and the place of the one that has it as a constant input.
_AXIS_OPTION = frozenset({"CONCATENATION", "GATHER"})
_AXIS_INPUT: Mapping[str, int] = MappingProxyType({"SPLIT": 0, "SPLIT_V": 2})
_PARAMETERS: Mapping[str, frozenset[int]] = MappingProxyType(
    {"GATHER": frozenset({1}), "SPLIT_V": frozenset({1})}
)

_KINDS = schema.ActivationFunctionType
_ACTIVATIONS: Mapping[str, int] = MappingProxyType({"RELU": _KINDS.RELU, "RELU6": _KINDS.RELU6})
_TAKE_ACTIVATION = frozenset(
    {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL"}
)


def count_transposes(model: Model) -> int:
    """Return how many transposes a file has."""
    return sum(operator.name == TRANSPOSE for operator in model.operators)


def without_transposes(data: bytes, name: str = "the model") -> bytes:
    """Return the file with as few transposes as this module can reach,
    and its image input in NHWC.
    """
    model = unpack(data, name)
    graph, signature = single_graph(model)
    if not any(operator_name(model, operator) == TRANSPOSE for operator in graph.operators):
        return data
    _Relayout(model, graph, signature).run()
    prune_graph(model, graph)
    # A graph with little to gain may end with more transposes than before.
    edited = pack(model)
    return (
        edited
        if count_transposes(read(edited, name)) < count_transposes(read(data, name))
        else data
    )


def with_channels_last(data: bytes, name: str = "the model") -> bytes:
    """Return a file whose only input is an image in NHWC, of any type;
    one that takes NCHW transposes it first.
    """
    model = unpack(data, name)
    graph = model.subgraphs[0]
    if len(model.subgraphs) != 1 or len(graph.inputs) != 1:
        return data
    source = graph.inputs[0]
    nchw = graph.tensors[source]
    shape = [] if nchw.shape is None else list(map(int, nchw.shape))
    if len(shape) != _IMAGE_RANK or shape[1] != 3 or shape[3] == 3:
        return data
    turned = [shape[axis] for axis in TO_NHWC]
    image = add_tensor(model, graph, f"{text_of(nchw.name)}/nhwc", turned, nchw.type)
    graph.tensors[image].quantization = nchw.quantization
    graph.inputs = [image]
    for signature in model.signatureDefs:
        for entry in signature.inputs:
            entry.tensorIndex = image
    readers = [operator for operator in graph.operators if source in operator.inputs]
    same = {operator.outputs[0]: image for operator in readers}
    # All readers turn the image to NHWC at once, so it can be given in NHWC and they go.
    turns = all(_permutes(model, graph, operator) == TO_NHWC for operator in readers)
    if turns and not same.keys() & set(graph.outputs):
        graph.operators = [operator for operator in graph.operators if operator not in readers]
        for operator in graph.operators:
            operator.inputs = [same.get(index, index) for index in operator.inputs]
        prune_graph(model, graph)
        return pack(model)
    order = add_tensor(
        model, graph, "nhwc/order", [_IMAGE_RANK], _INT32, np.asarray(TO_NCHW, "<i4").tobytes()
    )
    nchw.shapeSignature = None
    builtin = schema.BuiltinOperator.TRANSPOSE
    # The second version of TRANSPOSE takes int8.
    version = 2 if nchw.type == schema.TensorType.INT8 else 1
    options = schema.TransposeOptionsT()
    graph.operators = [
        new_operator(model, builtin, [image, order], source, options, version),
        *graph.operators,
    ]
    return pack(model)


def _permutes(
    model: schema.ModelT, graph: schema.SubGraphT, operator: schema.OperatorT
) -> tuple[int, ...]:
    """Return the order that a TRANSPOSE gives to the dimensions; empty for another operator."""
    if operator_name(model, operator) != TRANSPOSE:
        return ()
    order = _whole_numbers(model, graph.tensors[operator.inputs[1]])
    return () if order is None else tuple(order.tolist())


def _whole_numbers(model: schema.ModelT, tensor: schema.TensorT) -> npt.NDArray[np.int32] | None:
    """Return the values of a constant of int32, None for anything else."""
    content = content_of(model, tensor)
    if content is None or tensor.type != _INT32:
        return None
    return np.frombuffer(content.tobytes(), "<i4")


class _Relayout:
    """One pass over the operators of a graph, in their order."""

    def __init__(
        self, model: schema.ModelT, graph: schema.SubGraphT, signature: schema.SignatureDefT
    ) -> None:
        self._model = model
        self._graph = graph
        self._signature = signature
        self._turned_of: dict[int, int] = {}
        self._same: dict[int, int] = {}
        self._operators: list[schema.OperatorT] = []

    def run(self) -> None:
        self._turn_input()
        for operator in self._graph.operators:
            operator.inputs = [
                self._same.get(int(tensor), int(tensor)) for tensor in operator.inputs
            ]
            self._take(operator, operator_name(self._model, operator))
        self._graph.operators = self._operators
        self._graph.outputs = [
            self._same.get(int(tensor), int(tensor)) for tensor in self._graph.outputs
        ]
        for entry in self._signature.outputs:
            entry.tensorIndex = self._same.get(entry.tensorIndex, entry.tensorIndex)

    def _turn_input(self) -> None:
        """Let the only input take an image in NHWC if it takes one in NCHW."""
        if len(self._graph.inputs) != 1:
            return
        image = int(self._graph.inputs[0])
        shape = self._shape(image)
        if len(shape) == _IMAGE_RANK and shape[1] == 3 and shape[3] != 3:
            turned = self._turn_tensor(image)
            self._graph.inputs = [turned]
            for entry in self._signature.inputs:
                entry.tensorIndex = turned
            self._give_back(turned, image)

    def _take(self, operator: schema.OperatorT, name: str) -> None:
        order = self._order(operator, name)
        source = int(operator.inputs[0]) if len(operator.inputs) else -1
        target = int(operator.outputs[0])
        # The result exists already: readers take the counterpart.
        if order == TO_NHWC and source in self._turned_of:
            self._same[target] = self._turned_of[source]
            return
        if order == TO_NCHW:
            self._turned_of[target] = source
        elif order is None and self._move_operator(operator, name):
            return
        self._operators.append(operator)

    def _order(self, operator: schema.OperatorT, name: str) -> tuple[int, ...] | None:
        """Return the order of dimensions that an operator changes to,
        if that is all it does to an image.
        """
        if name == TRANSPOSE:
            axes = self._numbers(operator.inputs[1])
            return None if axes is None else tuple(map(int, axes))
        if name == "RESHAPE":
            before = self._shape(operator.inputs[0])
            after = self._shape(operator.outputs[0])
            # A reshape of a map with one channel or one place is a transpose in other words.
            for order in (TO_NCHW, TO_NHWC):
                if (
                    len(before) == _IMAGE_RANK
                    and after == _order_axes(before, order)
                    and _is_view(before, order)
                ):
                    return order
        return None

    def _move_operator(self, operator: schema.OperatorT, name: str) -> bool:
        """Add the operator on the counterparts of its inputs and return True,
        if it has them and can be moved.
        """
        images = []
        for tensor in operator.inputs:
            if self._is_image(int(tensor), operator, name):
                images.append(int(tensor))
        if not any(tensor in self._turned_of for tensor in images):
            return False
        # An input without a counterpart needs a transpose first,
        # which pays only where it moves no value.
        if not all(
            tensor in self._turned_of or _is_view(self._shape(tensor), TO_NHWC)
            for tensor in images
        ):
            return False
        # A copy, because the operator must stay as it was if its axes cannot be moved.
        moved = copy.copy(operator)
        moved.inputs = []
        for tensor in map(int, operator.inputs):
            placed = self._nhwc(tensor) if tensor in images else tensor
            moved.inputs.append(placed)
        moved.builtinOptions = copy.copy(operator.builtinOptions)
        # It may read the counterpart where both have the same values in the same order.
        if name == "RESHAPE":
            can_move = _is_view(self._shape(moved.inputs[0]), TO_NCHW)
        else:
            can_move = self._move_axes(moved, name)
        if not can_move:
            return False
        self._operators.append(moved)
        # The result stays as it is: a reshape gives the same values,
        # and what is no image has no other order.
        if name == "RESHAPE" or len(self._shape(operator.outputs[0])) != _IMAGE_RANK:
            return True
        moved.outputs = [self._turn_tensor(int(tensor)) for tensor in operator.outputs]
        for turned, wanted in zip(moved.outputs, operator.outputs, strict=True):
            self._give_back(turned, int(wanted))
        return True

    def _move_axes(self, operator: schema.OperatorT, name: str) -> bool:
        """Move the axes of an operator that reads counterparts now;
        return False where this is not possible.
        """
        if name in _POINTWISE:
            return self._turn_constants(operator)
        if name in _BY_DIMENSION:
            return all(self._turn_rows(operator, place) for place in _BY_DIMENSION[name])
        if name in _REDUCING:
            return self._move_reduced(operator)
        if name in _AXIS_OPTION:
            options = operator.builtinOptions
            if name == "GATHER" and (
                options.batchDims or len(self._shape(operator.inputs[1])) != 1
            ):
                return False
            options.axis = TO_NCHW[options.axis]
            return True
        axis = self._numbers(operator.inputs[_AXIS_INPUT[name]]) if name in _AXIS_INPUT else None
        if axis is None:
            return False
        operator.inputs[_AXIS_INPUT[name]] = self._integers(TO_NCHW[int(axis[0])])
        return True

    def _turn_constants(self, operator: schema.OperatorT) -> bool:
        """Turn the constants that a pointwise operator combines with an image."""
        inputs = []
        for tensor in operator.inputs:
            entry = self._graph.tensors[tensor]
            shape = self._shape(tensor)
            content = content_of(self._model, entry)
            # One number is the same in every order.
            if content is None or prod(shape) == 1:
                inputs.append(tensor)
                continue
            if entry.type != schema.TensorType.FLOAT32:
                return False
            padded = (1,) * (_IMAGE_RANK - len(shape)) + shape
            turned = np.frombuffer(content.tobytes(), "<f4").reshape(padded).transpose(TO_NHWC)
            inputs.append(
                self._add(turned.shape, entry.type, np.ascontiguousarray(turned).tobytes())
            )
        operator.inputs = inputs
        return True

    def _turn_rows(self, operator: schema.OperatorT, place: int) -> bool:
        numbers = self._numbers(operator.inputs[place])
        shape = self._shape(operator.inputs[place])
        if numbers is None or shape[0] != _IMAGE_RANK:
            return False
        operator.inputs[place] = self._integers(numbers.reshape(shape)[list(TO_NHWC)])
        return True

    def _move_reduced(self, operator: schema.OperatorT) -> bool:
        axes = self._numbers(operator.inputs[1])
        if axes is None:
            return False
        reduced = {int(axis) % _IMAGE_RANK for axis in axes}
        left = [TO_NCHW[axis] for axis in range(_IMAGE_RANK) if axis not in reduced]
        # The sides that are left would come in another order, as nothing holds their places.
        if not operator.builtinOptions.keepDims and left != sorted(left):
            return False
        operator.inputs[1] = self._integers(sorted(TO_NCHW[int(axis)] for axis in axes))
        return True

    def _is_image(self, tensor: int, operator: schema.OperatorT, name: str) -> bool:
        if tensor < 0 or list(operator.inputs).index(tensor) in _PARAMETERS.get(name, ()):
            return False
        constant = content_of(self._model, self._graph.tensors[tensor]) is not None
        return not constant and len(self._shape(tensor)) == _IMAGE_RANK

    def _nhwc(self, tensor: int) -> int:
        """Return the counterpart of a tensor, a view of it if it has none yet."""
        if tensor not in self._turned_of:
            self._turned_of[tensor] = self._turn_tensor(tensor)
            self._write(self._turned_of[tensor], tensor, TO_NHWC)
        return self._turned_of[tensor]

    def _turn_tensor(self, tensor: int) -> int:
        return self._add(
            _order_axes(self._shape(tensor), TO_NHWC), self._graph.tensors[tensor].type
        )

    def _give_back(self, turned: int, wanted: int) -> None:
        """Write the NCHW tensor ``wanted`` from its counterpart."""
        self._write(wanted, turned, TO_NCHW)
        self._turned_of[wanted] = turned

    def _write(self, target: int, source: int, order: tuple[int, ...]) -> None:
        """Add the operator that turns ``source`` into ``target``:
        a view of it where that is enough.
        """
        shape = self._shape(target)
        code = schema.BuiltinOperator.TRANSPOSE
        parameter = order
        options = schema.TransposeOptionsT()
        if _is_view(self._shape(source), order):
            code = schema.BuiltinOperator.RESHAPE
            parameter = shape
            options = schema.ReshapeOptionsT(newShape=list(shape))
        self._operators.append(
            new_operator(self._model, code, [source, self._integers(parameter)], target, options)
        )

    def _add(self, shape: Sequence[int], dtype: int, content: bytes | None = None) -> int:
        """Add a tensor of a new name: the quantizer wants them to differ."""
        return add_tensor(
            self._model, self._graph, f"nhwc/{len(self._graph.tensors)}", shape, dtype, content
        )

    def _integers(self, values: npt.ArrayLike) -> int:
        array = np.asarray(values, "<i4")
        return self._add(array.shape, _INT32, array.tobytes())

    def _numbers(self, tensor: int) -> npt.NDArray[np.int32] | None:
        return _whole_numbers(self._model, self._graph.tensors[tensor])

    def _shape(self, tensor: int) -> tuple[int, ...]:
        shape = self._graph.tensors[tensor].shape
        if shape is None:
            return ()
        return tuple(map(int, shape))


def _order_axes(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order)


def _is_view(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether the transposed values lie in the same order: only sides of one are moved."""
    long = [axis for axis in order if shape[axis] > 1]
    return long == sorted(long)


def simplify_file(data: bytes) -> bytes:
    """Return a file of another converter as TensorFlow's writes it:
    activations, paddings, one layer of scores.
    """
    model = unpack(data)
    graph, _ = single_graph(model)
    _fuse_activations(model, graph)
    _pad_with_zeros(model, graph)
    _merge_linear_layers(model, graph)
    prune_graph(model, graph)
    return pack(model)


def _fuse_activations(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    """Make an activation part of the operator before it, whose result nobody else reads."""
    makers = index_makers(graph)
    readings = Counter(map(int, graph.outputs))
    for operator in graph.operators:
        readings.update(map(int, operator.inputs))
    remaining = []
    for operator in graph.operators:
        kind = _ACTIVATIONS.get(operator_name(model, operator))
        maker = None
        if kind is not None:
            maker = makers.get(int(operator.inputs[0]))
        if (
            # Only a result that nobody else reads may change: the activation becomes a part of it.
            maker is None
            or readings[int(operator.inputs[0])] > 1
            or operator_name(model, maker) not in _TAKE_ACTIVATION
            or maker.builtinOptions.fusedActivationFunction != _KINDS.NONE
        ):
            remaining.append(operator)
            continue
        maker.builtinOptions.fusedActivationFunction = kind
        maker.outputs = operator.outputs
        # Later operators read the activation's result, which the operator before it makes now.
        makers[int(operator.outputs[0])] = maker
    graph.operators = remaining


def _pad_with_zeros(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    """Pad the input of a max-pooling with zeros where it has no negative values,
    in place of the lowest number.

    The largest values stay the same.
    The quantizer refuses the other operator, whose range would leave no digits.
    """
    makers = index_makers(graph)
    for operator in graph.operators:
        if operator_name(model, operator) != "PADV2":
            continue
        source = int(operator.inputs[0])
        padded = int(operator.outputs[0])
        readers = {
            operator_name(model, reader) for reader in graph.operators if padded in reader.inputs
        }
        if source in makers and _is_positive(model, makers[source]) and readers == {"MAX_POOL_2D"}:
            operator.inputs = operator.inputs[:2]
            operator.opcodeIndex = operator_code(model, schema.BuiltinOperator.PAD, 1)
            operator.builtinOptions = schema.PadOptionsT()
            operator.builtinOptionsType = schema.BuiltinOptions.PadOptions


def _is_positive(model: schema.ModelT, operator: schema.OperatorT) -> bool:
    """Return whether an operator never gives a negative value."""
    fused = getattr(operator.builtinOptions, "fusedActivationFunction", _KINDS.NONE)
    return fused in _ACTIVATIONS.values() or operator_name(model, operator) in _ACTIVATIONS


def _merge_linear_layers(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    """Make one layer of two linear layers of the same values whose mean or sum is taken.

    LeViT, EfficientFormerV2 and RepViT have two heads: one learnt from labels, one from a teacher.
    """
    makers = index_makers(graph)
    readers: dict[int, list[schema.OperatorT]] = {}
    for operator in graph.operators:
        for tensor in operator.inputs:
            readers.setdefault(int(tensor), []).append(operator)
    for total in list(graph.operators):
        pair = []
        for tensor in total.inputs:
            if int(tensor) in makers:
                pair.append(makers[int(tensor)])
        if (
            operator_name(model, total) != "ADD"
            or len(pair) != 2
            or not _are_heads(model, graph, total, pair, readers)
        ):
            continue
        first, second = pair
        sums = list[npt.NDArray[np.float32]]()
        for tensor, other_tensor in zip(first.inputs[1:], second.inputs[1:], strict=True):
            values = _floats(model, graph, int(tensor))
            other_values = _floats(model, graph, int(other_tensor))
            if values is not None and other_values is not None:
                sums.append(values + other_values)
        # A bias that only one of the two has cannot be added.
        if len(sums) < len(first.inputs) - 1:
            continue
        scale, last = _scale_after(model, graph, total, readers)
        for place, values in enumerate(sums, 1):
            shape = graph.tensors[first.inputs[place]].shape
            merged = (values * scale).astype("<f4")
            name = f"merged/{first.inputs[place]}"
            first.inputs[place] = add_tensor(model, graph, name, shape, _FLOAT32, merged.tobytes())
        first.outputs = last.outputs
        merged_ids = {id(second), id(total), id(last)}
        graph.operators = [
            operator for operator in graph.operators if id(operator) not in merged_ids
        ]


def _are_heads(
    model: schema.ModelT,
    graph: schema.SubGraphT,
    total: schema.OperatorT,
    pair: Sequence[schema.OperatorT],
    readers: Mapping[int, list[schema.OperatorT]],
) -> bool:
    """Return whether a sum is that of two different linear layers of the same values,
    which nothing else reads.
    """
    first, second = pair
    return (
        first is not second
        and all(operator_name(model, layer) == "FULLY_CONNECTED" for layer in pair)
        and all(
            layer.builtinOptions.fusedActivationFunction == _KINDS.NONE
            for layer in (first, second, total)
        )
        and int(first.inputs[0]) == int(second.inputs[0])
        and len(first.inputs) == len(second.inputs)
        and all(
            len(readers[int(tensor)]) == 1 and tensor not in graph.outputs
            for tensor in total.inputs
        )
    )


def _floats(
    model: schema.ModelT, graph: schema.SubGraphT, tensor: int
) -> npt.NDArray[np.float32] | None:
    """Return the values of a constant of float32, None for anything else."""
    content = None
    if tensor >= 0:
        content = content_of(model, graph.tensors[tensor])
    if content is None or graph.tensors[tensor].type != _FLOAT32:
        return None
    return np.frombuffer(content.tobytes(), "<f4")


def _scale_after(
    model: schema.ModelT,
    graph: schema.SubGraphT,
    total: schema.OperatorT,
    readers: Mapping[int, list[schema.OperatorT]],
) -> tuple[float, schema.OperatorT]:
    """Return the one number that alone multiplies a sum, with the operator;
    1 and the sum itself if none does.
    """
    result = int(total.outputs[0])
    if len(readers.get(result, [])) != 1 or result in graph.outputs:
        return 1.0, total
    (reader,) = readers[result]
    # The mean of two heads is their sum times 0.5.
    factor = None
    if operator_name(model, reader) == "MUL":
        factor = _floats(model, graph, int(reader.inputs[-1]))
    if (
        factor is not None
        and factor.size == 1
        and reader.builtinOptions.fusedActivationFunction == _KINDS.NONE
    ):
        return float(factor[0]), reader
    return 1.0, total
