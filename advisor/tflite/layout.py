"""Remove the transposes that converters from other frameworks leave, by computing in NHWC what they compute in NCHW.

Every tensor in NCHW that is a transposed one in NHWC has that one as its counterpart. An operator whose inputs
have counterparts runs on these, with its axes moved; behind it stands a transpose for those that still want its result
in NCHW. Those that nobody needs are removed at the end, and a file that would not have fewer transposes stays as it is.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.model import Model, read
from advisor.tflite.rewrite import add_tensor, content_of, new_operator, operator_name, pack, single_graph, unpack
from advisor.tflite.surgery import prune

TRANSPOSE = "TRANSPOSE"
TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
"""The order of the old dimensions in the new ones."""

_INT32 = schema.TensorType.INT32
_IMAGE_RANK = 4
_POINTWISE = frozenset(
    {
        *("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "LEAKY_RELU", "PRELU", "ELU", "GELU", "HARD_SWISH"),
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
_PARAMETERS: Mapping[str, frozenset[int]] = MappingProxyType({"GATHER": frozenset({1}), "SPLIT_V": frozenset({1})})


def transposes(model: Model) -> int:
    """Return how many transposes a file has."""
    return sum(operator.name == TRANSPOSE for operator in model.operators)


def without_transposes(data: bytes, name: str = "the model") -> bytes:
    """Return the file with as few transposes as this module can reach, and its image input in NHWC.

    Raises:
        UsageError: the file is damaged.
        StageError: not exactly one subgraph and one signature.
    """
    model = unpack(data, name)
    graph, signature = single_graph(model)
    if not any(operator_name(model, operator) == TRANSPOSE for operator in graph.operators):
        return data
    _Relayout(model, graph, signature).run()
    prune(model, graph, signature)
    edited = pack(model)
    return edited if transposes(read(edited, name)) < transposes(read(data, name)) else data


class _Relayout:
    """One pass over the operators of a graph, in their order."""

    def __init__(self, model: schema.ModelT, graph: schema.SubGraphT, signature: schema.SignatureDefT) -> None:
        self._model, self._graph, self._signature = model, graph, signature
        self._turned_of: dict[int, int] = {}
        self._same: dict[int, int] = {}
        self._operators: list[schema.OperatorT] = []

    def run(self) -> None:
        self._turn_input()
        for operator in self._graph.operators:
            operator.inputs = [self._same.get(int(tensor), int(tensor)) for tensor in operator.inputs]
            self._take(operator, operator_name(self._model, operator))
        self._graph.operators = self._operators
        self._graph.outputs = [self._same.get(int(tensor), int(tensor)) for tensor in self._graph.outputs]
        for entry in self._signature.outputs:
            entry.tensorIndex = self._same.get(entry.tensorIndex, entry.tensorIndex)

    def _turn_input(self) -> None:
        """Let the only input take an image in NHWC if it takes one in NCHW."""
        if len(self._graph.inputs) != 1:
            return
        image = int(self._graph.inputs[0])
        shape = self._shape(image)
        if len(shape) == _IMAGE_RANK and shape[1] == 3 and shape[3] != 3:
            turned = self._turned(image)
            self._graph.inputs = [turned]
            for entry in self._signature.inputs:
                entry.tensorIndex = turned
            self._give_back(turned, image)

    def _take(self, operator: schema.OperatorT, name: str) -> None:
        order = self._order(operator, name)
        source, target = int(operator.inputs[0]) if len(operator.inputs) else -1, int(operator.outputs[0])
        if order == TO_NHWC and source in self._turned_of:
            self._same[target] = self._turned_of[source]
            return
        if order == TO_NCHW:
            self._turned_of[target] = source
        elif order is None and self._moved(operator, name):
            return
        self._operators.append(operator)

    def _order(self, operator: schema.OperatorT, name: str) -> tuple[int, ...] | None:
        """Return the order of dimensions that an operator changes to, if that is all it does to an image."""
        if name == TRANSPOSE:
            axes = self._numbers(operator.inputs[1])
            return None if axes is None else tuple(int(axis) for axis in axes)
        if name == "RESHAPE":
            before, after = self._shape(operator.inputs[0]), self._shape(operator.outputs[0])
            for order in (TO_NCHW, TO_NHWC):
                if len(before) == _IMAGE_RANK and after == _ordered(before, order) and _is_view(before, order):
                    return order
        return None

    def _moved(self, operator: schema.OperatorT, name: str) -> bool:
        """Add the operator on the counterparts of its inputs and return True, if it has them and can be moved."""
        images = [int(tensor) for tensor in operator.inputs if self._is_image(int(tensor), operator, name)]
        if not any(tensor in self._turned_of for tensor in images) or not all(map(self._can_turn, images)):
            return False
        if name == "RESHAPE":
            return self._reshape(operator)
        move = self._rule(name)
        moved = copy.copy(operator)
        moved.inputs = [self._nhwc(int(tensor)) if tensor in images else int(tensor) for tensor in operator.inputs]
        moved.builtinOptions = copy.copy(operator.builtinOptions)
        if move is None or not move(moved, name):
            return False
        self._operators.append(moved)
        if len(self._shape(operator.outputs[0])) != _IMAGE_RANK:  # of a reduction, whose result is the same
            return True
        moved.outputs = [self._turned(int(tensor)) for tensor in operator.outputs]
        for turned, wanted in zip(moved.outputs, operator.outputs, strict=True):
            self._give_back(turned, int(wanted))
        return True

    def _rule(self, name: str) -> Callable[[schema.OperatorT, str], bool] | None:
        """Return the function that moves the axes of an operator on counterparts; it returns False where it cannot."""
        if name in _POINTWISE:
            return self._constants
        if name in _BY_DIMENSION:
            return self._rows
        if name in _REDUCING:
            return self._reduced
        if name in _AXIS_OPTION:
            return self._axis_option
        return self._axis_input if name in _AXIS_INPUT else None

    def _constants(self, operator: schema.OperatorT, _name: str) -> bool:
        """Turn the constants that a pointwise operator combines with an image."""
        inputs = []
        for tensor in operator.inputs:
            content = content_of(self._model, self._graph.tensors[tensor])
            shape = self._shape(tensor)
            if content is None or prod(shape) == 1:
                inputs.append(tensor)
                continue
            entry = self._graph.tensors[tensor]
            if entry.type != schema.TensorType.FLOAT32:
                return False
            padded = (1,) * (_IMAGE_RANK - len(shape)) + shape
            turned = np.frombuffer(content.tobytes(), "<f4").reshape(padded).transpose(TO_NHWC)
            content = np.ascontiguousarray(turned).tobytes()
            inputs.append(self._add(turned.shape, entry.type, content))
        operator.inputs = inputs
        return True

    def _rows(self, operator: schema.OperatorT, name: str) -> bool:
        for place in _BY_DIMENSION[name]:
            numbers, shape = self._numbers(operator.inputs[place]), self._shape(operator.inputs[place])
            if numbers is None or shape[0] != _IMAGE_RANK:
                return False
            rows = numbers.reshape(shape)[list(TO_NHWC)]
            operator.inputs[place] = self._integers(rows)
        return True

    def _reduced(self, operator: schema.OperatorT, _name: str) -> bool:
        axes = self._numbers(operator.inputs[1])
        if axes is None:
            return False
        places = [TO_NCHW[int(axis)] for axis in axes]
        left = [TO_NCHW[axis] for axis in range(_IMAGE_RANK) if axis not in [int(axis) % _IMAGE_RANK for axis in axes]]
        if not operator.builtinOptions.keepDims and left != sorted(left):
            return False
        operator.inputs[1] = self._integers(np.asarray(sorted(places)))
        return True

    def _axis_option(self, operator: schema.OperatorT, name: str) -> bool:
        options = operator.builtinOptions
        if name == "GATHER" and (options.batchDims or len(self._shape(operator.inputs[1])) != 1):
            return False
        options.axis = TO_NCHW[options.axis]
        return True

    def _axis_input(self, operator: schema.OperatorT, name: str) -> bool:
        place = _AXIS_INPUT[name]
        axis = self._numbers(operator.inputs[place])
        if axis is None:
            return False
        operator.inputs[place] = self._integers(np.asarray(TO_NCHW[int(axis[0])]))
        return True

    def _reshape(self, operator: schema.OperatorT) -> bool:
        """Read the counterpart where both have the same values in the same order."""
        counterpart = self._nhwc(int(operator.inputs[0]))
        if not _is_view(self._shape(counterpart), TO_NCHW):
            return False
        operator.inputs = [counterpart, *operator.inputs[1:]]
        self._operators.append(operator)
        return True

    def _is_image(self, tensor: int, operator: schema.OperatorT, name: str) -> bool:
        """Return whether an input is an activation of four dimensions."""
        if tensor < 0 or list(operator.inputs).index(tensor) in _PARAMETERS.get(name, ()):
            return False
        constant = content_of(self._model, self._graph.tensors[tensor]) is not None
        return not constant and len(self._shape(tensor)) == _IMAGE_RANK

    def _can_turn(self, tensor: int) -> bool:
        return tensor in self._turned_of or _is_view(self._shape(tensor), TO_NHWC)

    def _nhwc(self, tensor: int) -> int:
        """Return the counterpart of a tensor, a view of it if it has none yet."""
        if tensor not in self._turned_of:
            self._turned_of[tensor] = self._turned(tensor)
            self._write(self._turned_of[tensor], tensor, TO_NHWC)
        return self._turned_of[tensor]

    def _turned(self, tensor: int) -> int:
        return self._add(_ordered(self._shape(tensor), TO_NHWC), self._graph.tensors[tensor].type)

    def _give_back(self, turned: int, wanted: int) -> None:
        """Write the NCHW tensor ``wanted`` from its counterpart."""
        self._write(wanted, turned, TO_NCHW)
        self._turned_of[wanted] = turned

    def _write(self, target: int, source: int, order: tuple[int, ...]) -> None:
        """Add the operator that turns ``source`` into ``target``: a view of it where that is enough."""
        shape = self._shape(target)
        code, parameter, options = schema.BuiltinOperator.TRANSPOSE, order, schema.TransposeOptionsT()
        if _is_view(self._shape(source), order):
            code, parameter = schema.BuiltinOperator.RESHAPE, shape
            options = schema.ReshapeOptionsT(newShape=list(shape))
        inputs = [source, self._integers(np.asarray(parameter))]
        self._operators.append(new_operator(self._model, code, inputs, target, options))

    def _add(self, shape: Sequence[int], dtype: int, content: bytes | None = None) -> int:
        """Add a tensor of a new name: the quantizer wants them to differ."""
        return add_tensor(self._model, self._graph, f"nhwc/{len(self._graph.tensors)}", shape, dtype, content)

    def _integers(self, values: npt.NDArray[Any]) -> int:
        content = np.ascontiguousarray(values, "<i4")
        return self._add(values.shape, _INT32, content.tobytes())

    def _numbers(self, tensor: int) -> npt.NDArray[np.int32] | None:
        """Return the values of a constant of int32, None for anything else."""
        entry = self._graph.tensors[tensor]
        content = content_of(self._model, entry)
        return None if content is None or entry.type != _INT32 else np.frombuffer(content.tobytes(), "<i4")

    def _shape(self, tensor: int) -> tuple[int, ...]:
        shape = self._graph.tensors[tensor].shape
        return () if shape is None else tuple(int(side) for side in shape)


def _ordered(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order)


def _is_view(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether the transposed values lie in the same order: only sides of one are moved."""
    long = [axis for axis in order if shape[axis] > 1]
    return long == sorted(long)
