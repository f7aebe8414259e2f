"""Make files in NCHW, as other converters write them, compute in NHWC, without transposes.

The import of a user's model and `tools/graphs` call it: the CPU kernels of LiteRT compute in NHWC,
and each transpose costs time.

Every tensor in NCHW that is a transposed one in NHWC has that one as its counterpart. An operator
whose inputs have counterparts runs on these, with its axes moved; behind it stands a transpose for
those that still want its result in NCHW. Those that nobody needs are removed at the end, and a
file that would not have fewer transposes stays as it is.
"""

import copy
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.tflite._model import read, text_of
from advisor.tflite._rewrite import (
    unpack,
)
from advisor.tflite._tables import Tables
from advisor.tflite._values import TRANSPOSE

TO_NCHW = (0, 3, 1, 2)
TO_NHWC = (0, 2, 3, 1)
"""The order of the old dimensions in the new ones."""

_FLOAT32 = schema.TensorType.FLOAT32
_INT32 = schema.TensorType.INT32
_IMAGE_RANK = 4
_POINTWISE = frozenset(
    {
        *("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "LEAKY_RELU", "PRELU"),
        *("ELU", "GELU", "HARD_SWISH"),
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


def without_transposes(data: bytes, name: str = "the model") -> bytes:
    """Return a file with fewer transposes and with its image input in NHWC.

    The file stays as it is if it has no transposes, or would not have fewer.
    """
    model = unpack(data, name)
    graph, signature = model.find_single_graph()
    if not any(model.name_operator(operator) == TRANSPOSE for operator in graph.operators):
        return data
    _ChannelsLast(model, graph, signature).run()
    model.prune_tensors(graph)
    edited = model.pack()
    # A graph with little to gain may end with more transposes than before.
    gains = read(edited, name).transposes < read(data, name).transposes
    return edited if gains else data


def with_channels_last(data: bytes, name: str = "the model") -> bytes:
    """Return a file whose only input is an image in NHWC, of any type.

    A file that takes an image in NCHW transposes it first, or loses the transposes that it begins
    with. A file with another input stays as it is.
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
    image = model.add_tensor(graph, f"{text_of(nchw.name)}/nhwc", turned, nchw.type)
    graph.tensors[image].quantization = nchw.quantization
    graph.inputs = [image]
    for signature in model.signatureDefs:
        for entry in signature.inputs:
            entry.tensorIndex = image
    readers = [operator for operator in graph.operators if source in operator.inputs]
    same = {operator.outputs[0]: image for operator in readers}
    # All readers turn the image to NHWC at once, so it can be given in NHWC and they go.
    turns = all(_find_permutation(model, graph, operator) == TO_NHWC for operator in readers)
    if turns and not same.keys() & set(graph.outputs):
        graph.operators = [operator for operator in graph.operators if operator not in readers]
        for operator in graph.operators:
            operator.inputs = [same.get(index, index) for index in operator.inputs]
        model.prune_tensors(graph)
        return model.pack()
    order = model.add_tensor(
        graph, "nhwc/order", [_IMAGE_RANK], _INT32, np.asarray(TO_NCHW, "<i4").tobytes()
    )
    nchw.shapeSignature = None
    builtin = schema.BuiltinOperator.TRANSPOSE
    # The second version of TRANSPOSE takes int8.
    version = 2 if nchw.type == schema.TensorType.INT8 else 1
    options = schema.TransposeOptionsT()
    graph.operators = [
        model.make_operator(builtin, [image, order], source, options, version),
        *graph.operators,
    ]
    return model.pack()


def _find_permutation(
    model: Tables, graph: schema.SubGraphT, operator: schema.OperatorT
) -> tuple[int, ...]:
    """Return the order that a TRANSPOSE gives to the dimensions; empty for another operator."""
    if model.name_operator(operator) != TRANSPOSE:
        return ()
    order = _read_whole_numbers(model, graph.tensors[operator.inputs[1]])
    return () if order is None else tuple(order.tolist())


def _read_whole_numbers(model: Tables, tensor: schema.TensorT) -> npt.NDArray[np.int32] | None:
    """Return the values of a constant of int32, None for anything else."""
    content = model.read_content(tensor)
    if content is None or tensor.type != _INT32:
        return None
    return np.frombuffer(content.tobytes(), "<i4")


class _ChannelsLast:
    """One pass over the operators of a graph, in their order.

    ``_turned_of`` holds the counterpart in NHWC of a tensor in NCHW; ``_same`` holds the tensor
    that readers of another one take in its place; ``_operators`` is the new list of operators.
    """

    def __init__(
        self, model: Tables, graph: schema.SubGraphT, signature: schema.SignatureDefT
    ) -> None:
        self._model = model
        self._graph = graph
        self._signature = signature
        self._turned_of: dict[int, int] = {}
        self._same: dict[int, int] = {}
        self._operators: list[schema.OperatorT] = []

    def run(self) -> None:
        """Rewrite the operators, the outputs and the signature of the graph."""
        self._turn_input()
        for operator in self._graph.operators:
            operator.inputs = self._replace_readings(operator.inputs)
            self._move_or_keep(operator, self._model.name_operator(operator))
        self._graph.operators = self._operators
        self._graph.outputs = self._replace_readings(self._graph.outputs)
        for entry in self._signature.outputs:
            entry.tensorIndex = self._same.get(entry.tensorIndex, entry.tensorIndex)

    def _replace_readings(self, tensors: Sequence[int]) -> list[int]:
        return [self._same.get(int(tensor), int(tensor)) for tensor in tensors]

    def _turn_input(self) -> None:
        """Let the only input take an image in NHWC if it takes one in NCHW."""
        if len(self._graph.inputs) != 1:
            return
        image = int(self._graph.inputs[0])
        shape = self._shape_of(image)
        if len(shape) == _IMAGE_RANK and shape[1] == 3 and shape[3] != 3:
            turned = self._turn_tensor(image)
            self._graph.inputs = [turned]
            for entry in self._signature.inputs:
                entry.tensorIndex = turned
            self._turn_back(turned, image)

    def _move_or_keep(self, operator: schema.OperatorT, name: str) -> None:
        """Run an operator on counterparts if it can be moved; else keep it, if it is needed."""
        order = self._find_order(operator, name)
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

    def _find_order(self, operator: schema.OperatorT, name: str) -> tuple[int, ...] | None:
        """Return the order that an operator brings dimensions into, if it does nothing else."""
        if name == TRANSPOSE:
            axes = self._read_integers(operator.inputs[1])
            return None if axes is None else tuple(map(int, axes))
        if name == "RESHAPE":
            before = self._shape_of(operator.inputs[0])
            after = self._shape_of(operator.outputs[0])
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
            if self._is_activation_image(int(tensor), operator, name):
                images.append(int(tensor))
        if not any(tensor in self._turned_of for tensor in images):
            return False
        # An input without a counterpart needs a transpose first,
        # which pays only where it moves no value.
        if not all(
            tensor in self._turned_of or _is_view(self._shape_of(tensor), TO_NHWC)
            for tensor in images
        ):
            return False
        # A copy, because the operator must stay as it was if its axes cannot be moved.
        moved = copy.copy(operator)
        moved.inputs = []
        for tensor in map(int, operator.inputs):
            placed = self._counterpart_of(tensor) if tensor in images else tensor
            moved.inputs.append(placed)
        moved.builtinOptions = copy.copy(operator.builtinOptions)
        # It may read the counterpart where both have the same values in the same order.
        if name == "RESHAPE":
            can_move = _is_view(self._shape_of(moved.inputs[0]), TO_NCHW)
        else:
            can_move = self._move_axes(moved, name)
        if not can_move:
            return False
        self._operators.append(moved)
        # The result stays as it is: a reshape gives the same values,
        # and what is no image has no other order.
        if name == "RESHAPE" or len(self._shape_of(operator.outputs[0])) != _IMAGE_RANK:
            return True
        moved.outputs = [self._turn_tensor(int(tensor)) for tensor in operator.outputs]
        for turned, wanted in zip(moved.outputs, operator.outputs, strict=True):
            self._turn_back(turned, int(wanted))
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
                options.batchDims or len(self._shape_of(operator.inputs[1])) != 1
            ):
                return False
            options.axis = TO_NCHW[options.axis]
            return True
        axis = (
            self._read_integers(operator.inputs[_AXIS_INPUT[name]])
            if name in _AXIS_INPUT
            else None
        )
        if axis is None:
            return False
        operator.inputs[_AXIS_INPUT[name]] = self._add_integers(TO_NCHW[int(axis[0])])
        return True

    def _turn_constants(self, operator: schema.OperatorT) -> bool:
        """Turn the constants that a pointwise operator combines with an image."""
        inputs = []
        for tensor in operator.inputs:
            entry = self._graph.tensors[tensor]
            shape = self._shape_of(tensor)
            content = self._model.read_content(entry)
            # One number is the same in every order.
            if content is None or prod(shape) == 1:
                inputs.append(tensor)
                continue
            if entry.type != schema.TensorType.FLOAT32:
                return False
            padded = (1,) * (_IMAGE_RANK - len(shape)) + shape
            turned = np.frombuffer(content.tobytes(), "<f4").reshape(padded).transpose(TO_NHWC)
            inputs.append(
                self._add_tensor(turned.shape, entry.type, np.ascontiguousarray(turned).tobytes())
            )
        operator.inputs = inputs
        return True

    def _turn_rows(self, operator: schema.OperatorT, place: int) -> bool:
        """Turn a constant input that has one row or entry for each dimension."""
        numbers = self._read_integers(operator.inputs[place])
        shape = self._shape_of(operator.inputs[place])
        if numbers is None or shape[0] != _IMAGE_RANK:
            return False
        operator.inputs[place] = self._add_integers(numbers.reshape(shape)[list(TO_NHWC)])
        return True

    def _move_reduced(self, operator: schema.OperatorT) -> bool:
        """Move the axes over which an operator such as MEAN reduces."""
        axes = self._read_integers(operator.inputs[1])
        if axes is None:
            return False
        reduced = {int(axis) % _IMAGE_RANK for axis in axes}
        left = [TO_NCHW[axis] for axis in range(_IMAGE_RANK) if axis not in reduced]
        # The sides that are left would come in another order, as nothing holds their places.
        if not operator.builtinOptions.keepDims and left != sorted(left):
            return False
        operator.inputs[1] = self._add_integers(sorted(TO_NCHW[int(axis)] for axis in axes))
        return True

    def _is_activation_image(self, tensor: int, operator: schema.OperatorT, name: str) -> bool:
        if tensor < 0 or list(operator.inputs).index(tensor) in _PARAMETERS.get(name, ()):
            return False
        constant = self._model.read_content(self._graph.tensors[tensor]) is not None
        return not constant and len(self._shape_of(tensor)) == _IMAGE_RANK

    def _counterpart_of(self, tensor: int) -> int:
        """Return the counterpart of a tensor, a view of it if it has none yet."""
        if tensor not in self._turned_of:
            self._turned_of[tensor] = self._turn_tensor(tensor)
            self._append_turn(self._turned_of[tensor], tensor, TO_NHWC)
        return self._turned_of[tensor]

    def _turn_tensor(self, tensor: int) -> int:
        return self._add_tensor(
            _order_axes(self._shape_of(tensor), TO_NHWC), self._graph.tensors[tensor].type
        )

    def _turn_back(self, turned: int, wanted: int) -> None:
        """Write the NCHW tensor ``wanted`` from its counterpart."""
        self._append_turn(wanted, turned, TO_NCHW)
        self._turned_of[wanted] = turned

    def _append_turn(self, target: int, source: int, order: tuple[int, ...]) -> None:
        """Add the operator that turns ``source`` into ``target``:
        a view of it where that is enough.
        """
        shape = self._shape_of(target)
        code = schema.BuiltinOperator.TRANSPOSE
        parameter = order
        options = schema.TransposeOptionsT()
        if _is_view(self._shape_of(source), order):
            code = schema.BuiltinOperator.RESHAPE
            parameter = shape
            options = schema.ReshapeOptionsT(newShape=list(shape))
        self._operators.append(
            self._model.make_operator(
                code, [source, self._add_integers(parameter)], target, options
            )
        )

    def _add_tensor(self, shape: Sequence[int], dtype: int, content: bytes | None = None) -> int:
        """Add a tensor of a new name: the quantizer wants them to differ."""
        return self._model.add_tensor(
            self._graph, f"nhwc/{len(self._graph.tensors)}", shape, dtype, content
        )

    def _add_integers(self, values: npt.ArrayLike) -> int:
        array = np.asarray(values, "<i4")
        return self._add_tensor(array.shape, _INT32, array.tobytes())

    def _read_integers(self, tensor: int) -> npt.NDArray[np.int32] | None:
        return _read_whole_numbers(self._model, self._graph.tensors[tensor])

    def _shape_of(self, tensor: int) -> tuple[int, ...]:
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
