"""Observe a float model's activations on calibration images, once for all recipes.

:class:`Observer` runs the model when the first recipe needs it. The ranges become the steps of
activations (`quantizer.py`), the covariances spread rounding errors (`grid.py`). Sums are added in
the order of the images whatever the number of cores: equal images must give equal files.

The stage of calibration keeps what is observed (`prepared.py`). If it changes, raise ``version``
of that stage and of the recipes: ``docs/extend-stages.md``, "Which version to raise".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from advisor.compression._quantization.layers import Layer, find_layers
from advisor.core import StageError
from advisor.isolation import usable_cores
from advisor.tflite import Model, Tables, open_model

if TYPE_CHECKING:
    from advisor.compression._quantization.grid import Grids

Range = tuple[float, float]
Inputs: TypeAlias = "NDArray[np.float32] | tuple[NDArray[Any], ...]"
"""Images, float32 (n, S, S, 3), or for several inputs an array (n, ...) each, in their order."""

LEVELS = 255
"""Steps of an 8-bit activation."""

POSITIONS = 16
"""Positions of each layer and image whose inputs are recorded. From 100 images these are more rows
than a kernel of a mobile network has inputs.
"""

MOST_INPUTS = 2500
"""Largest number of weights of an output channel whose input products are summed (50 MB)."""

AT_A_TIME = 20
"""Images whose positions are summed together."""

LOWEST = float(np.finfo(np.float32).min)
"""Lowest number of float32; some converters write minus infinity in its place."""

WIDE = 1024
"""Values in a row from which on numpy finds extremes fast."""


@dataclass(frozen=True, eq=False)
class Activation:
    """The least, greatest and mean values of one tensor over all images, (C,) each.

    C are the channels, the tensor's last axis.
    """

    lows: NDArray[np.float32]
    highs: NDArray[np.float32]
    means: NDArray[np.float64]

    @property
    def range(self) -> Range:
        """The least and the greatest value; the range always includes 0."""
        return min(float(self.lows.min()), 0.0), max(float(self.highs.max()), 0.0)


@dataclass(frozen=True, eq=False)
class Observation:
    """Activations of a model on images.

    Attributes:
        activations: by tensor index: its input and every operator's float output.
        moments: by the kernel's index, the covariance of the inputs of an output channel, float64
            (K, K); for a depthwise layer (C, K, K), one matrix for each input channel.
        sources: tensor indices of the model's inputs.
    """

    activations: Mapping[int, Activation]
    moments: Mapping[int, NDArray[np.float64]]
    sources: tuple[int, ...]

    def compute_ranges(self, bits: int = 8) -> dict[int, Range]:
        """Return the range of each tensor that ``bits`` bits must cover, by tensor index.

        It goes from the least to the greatest value seen. Clipping outliers to lower the squared
        error of the rest (Nagel et al., "A White Paper on Neural Network Quantization", 2021,
        section 3.1) harms, as later layers use the outliers to tell classes apart. On TrashNet
        int8 MobileNetV2 lost two points with clipping and 1.2 without. EfficientNet-Lite0,
        SqueezeNet and MobileNetV1 0.25 lose the same with both.
        """
        ranges = {index: activation.range for index, activation in self.activations.items()}
        # 16 bits have steps enough for every pixel value.
        if bits <= 8:
            for source in self.sources:
                if source in ranges:
                    ranges[source] = widen_for_pixels(ranges[source])
        return ranges


def widen_for_pixels(whole: Range) -> Range:
    """Return a slightly wider range, which rounds pixels better.

    Pixels normalised to -1..1 lie half way between two of the 255 steps of exactly that range, and
    rounding to even keeps only seven of their eight bits. Int8 MobileNetV1 0.25 then lost 3.7
    points on TrashNet's training part, and 2.7 with the wider range.
    """
    low, high = whole
    return low, high + (high - low) / LEVELS


class Observer:
    """Keeps the last observation, as the recipes of one model need the same one.

    ``corrected`` is that model corrected for each grid. ``only`` is the observation of the only
    model that it will be called with; None if it observes models.
    """

    def __init__(
        self, only: Observation | None = None, corrected: Mapping[Grids, bytes] | None = None
    ) -> None:
        self._key: tuple[str, str] | None = None
        self.only = only
        self._last = only
        self.corrected: dict[Grids, bytes] = dict(corrected or {})

    def __call__(self, data: bytes, images: Inputs) -> Observation:
        """Return :func:`observe_activations` of the same arguments."""
        from hashlib import sha256

        if self.only is not None:
            return self.only
        digest = sha256()
        for array in _as_arrays(images):
            digest.update(array.tobytes())
        key = (sha256(data).hexdigest(), digest.hexdigest())
        if self._last is None or key != self._key:
            # The key follows its result: after an error, the next call observes again.
            self._last = observe_activations(data, images)
            self._key = key
            self.corrected = {}
        return self._last


def observe_activations(
    data: bytes,
    images: Inputs,
    known: Mapping[int, Activation] | None = None,
    done: Collection[int] = (),
) -> Observation:
    """Run a float ``.tflite`` on samples and record every activation.

    ``known`` are activations that are known, by tensor index; ``done`` are kernels whose
    covariances are not needed. An activation that is not finite is a StageError.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    tables, model = open_model(data)
    sources = tuple(model.subgraphs[0].inputs)
    activations = dict(known or {})
    padded = _list_padded_with_lowest(model)
    tensors = set(sources)
    for operator in model.operators:
        tensors.update(output for output in operator.outputs if output not in padded)
    floats = sorted(index for index in tensors if model.tensors[index].dtype == "float32")
    layers = []
    for layer in find_layers(model):
        if layer.source in floats and layer.weights <= MOST_INPUTS:
            layers.append(layer)
    sums = [_InputSums(layer) for layer in layers if layer.kernel not in done]
    notes = {index: _Extremes() for index in floats if index not in activations}
    # The order of additions must not depend on the machine.
    with threadpool_limits(limits=1, user_api="blas"):
        _run_samples(tables, _as_arrays(images), sources, notes, sums)
        activations |= {index: note.make_activation() for index, note in notes.items()}
        for index, source in padded.items():
            activations[index] = activations[source]
        moments = {layer_sums.layer.kernel: layer_sums.compute_moments() for layer_sums in sums}
    return Observation(activations, moments, sources)


def _list_padded_with_lowest(model: Model) -> dict[int, int]:
    """Return the tensors that are padded with the lowest number, each with the one that it pads.

    Such a margin never wins the maximum that is taken behind it. In the range of the tensor it
    would leave a step of 1e36 to 8 bits: EfficientDet-Lite0 lost half of its mAP@0.5. The lowest
    of the 256 values never wins either.
    """
    padded = {}
    for operator in model.operators:
        if operator.name != "PADV2":
            continue
        margin = model.tensors[operator.inputs[2]].real_values()
        if margin is not None and np.max(margin) <= LOWEST:
            padded[operator.outputs[0]] = operator.inputs[0]
    return padded


def _as_arrays(samples: Inputs) -> tuple[NDArray[Any], ...]:
    return samples if isinstance(samples, tuple) else (samples,)


def _run_samples(
    tables: Tables,
    arrays: tuple[NDArray[Any], ...],
    sources: tuple[int, ...],
    notes: Mapping[int, _Extremes],
    sums: list[_InputSums],
) -> None:
    """Run the model on each sample, and add its values to the notes and sums."""
    read_at = sorted({*notes, *(layer_sums.layer.source for layer_sums in sums)})
    # All is known from an earlier model: nothing has to run.
    if not read_at:
        return
    interpreter = _make_interpreter(tables, [index for index in read_at if index not in sources])
    shapes = {detail["index"]: detail["shape"] for detail in interpreter.get_input_details()}
    recorders = usable_cores(for_job=True)
    with ThreadPoolExecutor(recorders) as pool:
        recording: list[Future[None]] = []
        for sample in zip(*arrays, strict=True):
            for source, value in zip(sources, sample, strict=True):
                interpreter.set_tensor(source, value.reshape(shapes[source]))
            interpreter.invoke()
            values = {index: interpreter.get_tensor(index) for index in read_at}
            # Each thread has tensors of its own and gets the images in their order, so that the
            # number of threads changes no sum. The next image runs meanwhile.
            for share in recording:
                share.result()
            recording = []
            for first in range(recorders):
                some_notes = list(notes.items())[first::recorders]
                recording.append(
                    pool.submit(_record_values, values, some_notes, sums[first::recorders])
                )
        for share in recording:
            share.result()


def _record_values(
    values: Mapping[int, NDArray[np.float32]],
    notes: Sequence[tuple[int, _Extremes]],
    sums: Sequence[_InputSums],
) -> None:
    """Add the values of one image, by tensor index, to some of the notes and sums."""
    for index, note in notes:
        channels = 1
        if values[index].ndim:
            channels = values[index].shape[-1]
        note.add(values[index].reshape(-1, channels))
    for layer_sums in sums:
        layer_sums.add(values[layer_sums.layer.source])


def _make_interpreter(tables: Tables, outputs: list[int]) -> Any:
    """Return an interpreter with these activations as outputs and the runtime's usual kernels."""
    from ai_edge_litert.interpreter import Interpreter

    model = tables.make_editable()
    model.subgraphs[0].outputs = outputs
    model.signatureDefs = []
    interpreter = Interpreter(model_content=model.pack(), num_threads=1)
    interpreter.allocate_tensors()
    return interpreter


class _Extremes:
    """Records the least, greatest and mean values of one tensor over the images."""

    def __init__(self) -> None:
        self._lows: Any = math.inf
        self._highs: Any = -math.inf
        self._sum: Any = 0.0
        self._count = 0

    def add(self, value: NDArray[np.float32]) -> None:
        """Record the value of one image, (positions, C)."""
        wide = _widen_rows(value)
        channels = value.shape[1]
        self._lows = np.minimum(self._lows, wide.min(axis=0).reshape(-1, channels).min(axis=0))
        self._highs = np.maximum(self._highs, wide.max(axis=0).reshape(-1, channels).max(axis=0))
        self._sum = self._sum + value.mean(axis=0, dtype=np.float64)
        self._count += 1

    def make_activation(self) -> Activation:
        if not (np.isfinite(self._lows).all() and np.isfinite(self._highs).all()):
            raise StageError(
                "the float model gives values that are not finite on the calibration images"
            )
        return Activation(self._lows, self._highs, self._sum / self._count)


def _widen_rows(value: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (positions, C) as fewer and longer rows.

    NumPy finds their extremes in a fifth of the time.
    """
    rows, columns = value.shape
    while rows % 2 == 0 and columns < WIDE:
        rows = rows // 2
        columns = 2 * columns
    return value.reshape(rows, columns)


class _InputSums:
    """Sums the inputs of one layer and their products."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self._draw = np.random.default_rng(0)
        self._waiting: list[NDArray[np.float32]] = []
        self._count = 0
        self._centre: Any = None
        self._sum: Any = 0.0
        self._products: Any = 0.0

    def add(self, value: NDArray[np.float32]) -> None:
        self._waiting.append(self.layer.draw_inputs(value, POSITIONS, self._draw))
        if len(self._waiting) >= AT_A_TIME:
            self._add_waiting()

    def _add_waiting(self) -> None:
        rows = np.concatenate(self._waiting)
        if self.layer.depthwise:
            by_channel = np.moveaxis(rows, 2, 0)
        else:
            by_channel = rows.reshape(1, len(rows), -1)
        if self._centre is None:
            self._centre = by_channel.mean(axis=1, keepdims=True)
        # Without the mean, products keep their digits in float32.
        by_channel = by_channel - self._centre
        products = np.matmul(np.swapaxes(by_channel, 1, 2), by_channel)
        self._products = self._products + products.astype(np.float64)
        self._sum = self._sum + by_channel.sum(axis=1, dtype=np.float64)
        self._count += len(rows)
        self._waiting = []

    def compute_moments(self) -> NDArray[np.float64]:
        if self._waiting:
            self._add_waiting()
        means = self._sum / self._count
        covariance: NDArray[np.float64] = (
            self._products / self._count - means[:, :, None] * means[:, None, :]
        )
        return covariance if self.layer.depthwise else covariance[0]
