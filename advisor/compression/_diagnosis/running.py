"""Run both files with all tensors readable, and single operators of the quantized file.

`diagnose.py` adds the values of each image to :class:`Sums`. Builtin kernels run, not XNNPACK,
which fuses operators and drops the tensors between them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.compression._diagnosis.figures import find_widest
from advisor.compression._diagnosis.pairs import CONVERTING, OperatorPair
from advisor.core import Outlier, StageError
from advisor.isolation import agent
from advisor.tflite import Model, dequantize, quantize, unpack

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

Floats = NDArray[np.float32]


class InspectableModel:
    """A file with builtin kernels, whose tensors can all be read after a run.

    StageError is raised for a file that cannot be loaded.
    """

    def __init__(self, data: bytes, name: str) -> None:
        try:
            self._interpreter = _make_interpreter(data)
        except (ValueError, RuntimeError) as error:
            raise StageError(
                f"{name}: LiteRT cannot load the model: {agent.one_line(error)}"
            ) from error
        self.inputs = self._interpreter.get_input_details()
        self._details = {
            detail["index"]: detail for detail in self._interpreter.get_tensor_details()
        }

    def __call__(self, *values: Floats) -> None:
        """Run on one float32 value for each input; values of integer inputs are quantized."""
        for detail, value in zip(self.inputs, values, strict=True):
            stored = value.astype(detail["dtype"])
            # A scale of 0 means that the input is not quantized.
            if detail["quantization"][0]:
                stored = quantize(value, detail)
            self._interpreter.set_tensor(detail["index"], stored.reshape(detail["shape"]))
        self._interpreter.invoke()

    def read(self, tensor: int) -> Floats:
        """Return a tensor as float32."""
        return dequantize(self._interpreter.get_tensor(tensor), self._details[tensor])

    @property
    def output(self) -> Floats:
        """The first output as float32."""
        return self.read(self._interpreter.get_output_details()[0]["index"])


Alone = tuple["InspectableModel", tuple[int, ...]]
"""One operator as a file, and the tensor of the float file for each of its inputs."""


def isolate_operators(
    data: bytes, quantized: Model, reference: Model, operator_pairs: Sequence[OperatorPair]
) -> dict[int, Alone]:
    """Return the operators of the quantized file that can be run by themselves, by their index."""
    tables = unpack(data)
    feeds = _match_feeds(quantized, reference, operator_pairs)
    runs: dict[int, Alone] = {}
    for pair in operator_pairs:
        file, inputs = tables.cut_operator(pair.quantized)
        if inputs and all(tensor in feeds for tensor in inputs):
            sources = tuple(feeds[tensor] for tensor in inputs)
            # The runtime has no such operator alone.
            with suppress(StageError):
                runs[pair.quantized] = InspectableModel(file, "the operator"), sources
    return runs


def _match_feeds(
    quantized: Model, reference: Model, operator_pairs: Sequence[OperatorPair]
) -> Mapping[int, int]:
    """Return the tensor of the float file for each activation of the quantized file."""
    feeds = dict(zip(quantized.subgraphs[0].inputs, reference.subgraphs[0].inputs, strict=True))
    feeds.update((pair.output, pair.reference_output) for pair in operator_pairs)
    # A converted tensor holds the same values as the one before it.
    for operator in quantized.operators:
        if operator.name in CONVERTING and operator.inputs[0] in feeds:
            feeds[operator.outputs[0]] = feeds[operator.inputs[0]]
    return feeds


def _make_interpreter(data: bytes) -> Interpreter:
    """Return an interpreter with builtin kernels that keeps all tensors."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # The runtime warns that preserving tensors is for debugging, which this is.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        interpreter = Interpreter(
            model_content=data,
            num_threads=1,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        interpreter.allocate_tensors()
    return interpreter


@dataclass
class Sums:
    """Sums over the values of one tensor of the float file.

    ``low`` and ``high`` are the least and greatest value that its quantized form can hold, and
    ``outside`` is how many cannot be held. ``noise`` sums the squared differences to the quantized
    file's, ``own_noise`` those of the operator by itself; None if it cannot be run so. ``least``
    and ``most`` are the extremes of each channel.
    """

    low: float = -math.inf
    high: float = math.inf
    count: int = 0
    total: float = 0.0
    signal: float = 0.0
    noise: float = 0.0
    own_noise: float | None = None
    outside: int = 0
    least: Any = math.inf
    most: Any = -math.inf

    def add(self, floats: Floats, quantized: Floats, alone: Floats | None) -> None:
        """Add one image's values, of both files and of the operator ``alone``."""
        values = floats.astype(np.float64)
        self.count += values.size
        self.total += float(values.sum())
        self.signal += float((values**2).sum())
        self.noise += float(((quantized - values) ** 2).sum())
        if alone is not None:
            difference = alone.reshape(values.shape) - values
            self.own_noise = (self.own_noise or 0.0) + float((difference**2).sum())
        # Half a step: a value just beyond the end still rounds to the last step without loss.
        margin = 0.0
        if math.isfinite(self.high - self.low):
            margin = (self.high - self.low) / 510
        self.outside += int(((values < self.low - margin) | (values > self.high + margin)).sum())
        channels = floats.shape[-1] if floats.ndim else 1
        rows = floats.reshape(-1, channels)
        self.least = np.minimum(self.least, rows.min(axis=0))
        self.most = np.maximum(self.most, rows.max(axis=0))

    @property
    def deviation(self) -> float:
        """Standard deviation of the values."""
        mean = self.total / self.count
        return math.sqrt(max(0.0, self.signal / self.count - mean * mean))

    @property
    def used(self) -> tuple[float, float]:
        """Least and greatest value seen."""
        return float(self.least.min()), float(self.most.max())

    @property
    def channels(self) -> Outlier | None:
        """The channel with the widest range of values."""
        return find_widest(self.most - self.least)

    def ends(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the least and the greatest value of each channel, in five digits."""
        return _round_digits(self.least), _round_digits(self.most)


def _round_digits(ends: NDArray[Any]) -> tuple[float, ...]:
    return tuple(float(f"{end:.5g}") for end in ends.tolist())
