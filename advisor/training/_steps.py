"""Take the steps of a training: gradients of a batch, then the update of the weights.

Fine-tuning (`_finetune/optimizer.py`) and heads on maps (`_on_maps/fit.py`) train through
:class:`Steps`, on the CPU or on a GPU. On a GPU, the network computes in bfloat16 if that is
faster there, and a batch that its memory does not hold is computed in parts. Weights, loss, update
and the exported file are in float32 everywhere, and the batches are the same. On the CPU, equal
seeds must give equal weights, bit by bit: if they change, raise ``FINETUNE_VERSION`` and the
``version`` of each task that trains on maps (``docs/extend-stages.md``, "Which version to raise").
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    LossAndGradients = tuple[tf.Tensor, Sequence[tf.Tensor]]
    Gradients = Callable[["Tensors", "Tensors"], LossAndGradients]

HALF = "mixed_bfloat16"
"""Keras' policy for layers: float32 weights, computation in bfloat16. It has the range of float32,
so that a loss needs no scale as in float16 (Kalamkar et al., "A Study of BFLOAT16 for Deep
Learning Training", 2019).
"""

# Gradients that are timed in each precision, and the time in bfloat16 over float32 to take it.
TIMED = 5
GAIN = 0.9

Tensors = Sequence[Any]
"""Tensors with the images along their first axis, or lists and tuples of such."""


def write_variables(variables: Iterable[Any], path: Path) -> None:
    """Write the values of variables of Keras or TensorFlow, in their order, as ``.npz``.

    Keras' own files take half a second of processor time for a mobile network, at the end
    of each epoch.
    """
    arrays = dict[str, Any]()
    for number, variable in enumerate(variables):
        arrays[str(number)] = np.asarray(variable)
    np.savez(path, **arrays)


def read_variables(variables: Iterable[Any], path: Path) -> None:
    """Read back what :func:`write_variables` wrote.

    Raises:
        OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile: the file is missing, damaged
            or of other variables.
    """
    with np.load(path, allow_pickle=False) as arrays:
        for number, variable in enumerate(variables):
            variable.assign(arrays[str(number)])


def list_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that TensorFlow trains on; it takes memory as it needs it."""
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    for device in devices:
        try:
            tf.config.experimental.set_memory_growth(device, True)
        except RuntimeError:
            # The GPU is in use already, so its memory cannot be changed any more.
            break
    names = []
    for device in devices:
        details = tf.config.experimental.get_device_details(device)
        names.append(str(details.get("device_name", device.name)))
    return tuple(names)


class Steps:
    """The steps of one training.

    ``gradients`` takes the tensors of a batch and further values; it returns the loss, a mean over
    the images, and the gradients of the weights. ``update`` takes these and further values.
    ``layers`` may compute in bfloat16, see :func:`find_halvable`. ``names`` are those of the GPUs;
    None for the ones that TensorFlow sees.
    """

    def __init__(
        self,
        gradients: Callable[..., LossAndGradients],
        update: Callable[..., None],
        layers: Sequence[keras.layers.Layer] = (),
        names: Sequence[str] | None = None,
    ) -> None:
        import tensorflow as tf

        self._gradients = gradients
        self._layers = layers
        self._names = list_gpus() if names is None else tuple(names)
        self._parts = 1
        self._is_traced = False

        def whole(batch: Tensors, values: Tensors, after: Tensors) -> tf.Tensor:
            loss, computed = gradients(*batch, *values)
            update(computed, *after)
            return loss

        self._whole = tf.function(whole, autograph=False, reduce_retracing=True)
        self._update = tf.function(
            lambda computed, after: update(computed, *after),
            autograph=False,
            reduce_retracing=True,
        )
        # None until the precision is chosen, by timing the first batch.
        self._compiled = None if self._names and layers else self._compile_step(half=False)

    def _compile_step(self, half: bool) -> Gradients:
        import tensorflow as tf

        def some(batch: Tensors, values: Tensors) -> LossAndGradients:
            with in_half(self._layers if half else ()):
                return self._gradients(*batch, *values)

        return tf.function(some, autograph=False, reduce_retracing=True)  # type: ignore[no-any-return]

    def run(self, batch: Tensors, values: Tensors = (), after: Tensors = ()) -> tf.Tensor:
        """Take one step and return its loss.

        Raises ResourceExhaustedError of TensorFlow if the memory of a GPU does not hold the
        gradients of one image.
        """
        if not self._names:
            self._trace_any_number(batch, values, after)
            return self._whole(batch, values, after)
        loss, computed = self._compute_in_memory(batch, values)
        self._update(computed, after)
        return loss

    def _trace_any_number(self, batch: Tensors, values: Tensors, after: Tensors) -> None:
        """Trace the step for any number of images, if that is not done.

        The last batch of an epoch is smaller. Without this, TensorFlow traces the step for the
        number in each of the two batches.
        """
        import tensorflow as tf

        def open_number(tensor: tf.Tensor) -> tf.TensorSpec:
            return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)

        if self._is_traced:
            return
        self._is_traced = True
        specs = tf.nest.map_structure(open_number, batch)
        self._whole.get_concrete_function(specs, values, after)

    def _compute_in_memory(self, batch: Tensors, values: Tensors) -> LossAndGradients:
        """Return loss and gradients; double the number of parts if the memory holds too little."""
        import tensorflow as tf

        while True:
            try:
                self._compiled = self._compiled or self._choose_precision(batch, values)
                return self._compute_in_parts(self._compiled, batch, values)
            except tf.errors.ResourceExhaustedError:
                images = len(tf.nest.flatten(batch)[0])
                if self._parts >= images:
                    raise
                self._parts = min(2 * self._parts, images)
                _note_line(
                    f"the memory of {self._names[0]} does not hold the batch: it is computed in"
                    f" {self._parts} parts"
                )

    def _compute_in_parts(
        self, compiled: Gradients, batch: Tensors, values: Tensors
    ) -> LossAndGradients:
        """Return the means of loss and gradients over the images, computed part after part."""
        import tensorflow as tf

        images = len(tf.nest.flatten(batch)[0])
        bounds = [images * part_number // self._parts for part_number in range(self._parts + 1)]
        loss = tf.constant(0.0)
        summed = list[Any]()
        for first, last in pairwise(bounds):
            share = (last - first) / images
            part = tf.nest.map_structure(
                lambda tensor, images=slice(first, last): tensor[images], batch
            )
            loss_of_part, gradients = compiled(part, values)
            loss += share * loss_of_part
            before = summed or [0.0] * len(gradients)
            pairs = zip(gradients, before, strict=True)
            summed = [share * gradient + total for gradient, total in pairs]
        return loss, summed

    def _choose_precision(self, batch: Tensors, values: Tensors) -> Gradients:
        """Time gradients in both precisions and return the faster step; the weights stay."""
        whole = self._compile_step(half=False)
        half = self._compile_step(half=True)
        seconds = []
        for compiled in (whole, half):
            # The first call compiles.
            float(self._compute_in_parts(compiled, batch, values)[0])
            began = time.perf_counter()
            for _ in range(TIMED):
                loss, _gradients = self._compute_in_parts(compiled, batch, values)
            # Reading a value waits for the GPU.
            float(loss)
            seconds.append((time.perf_counter() - began) / TIMED)
        gains = seconds[1] < GAIN * seconds[0]
        times = f"{1e3 * seconds[0]:.1f} ms in float32, {1e3 * seconds[1]:.1f} in bfloat16"
        _note_line(f"trains on {self._names[0]} in {'bfloat16' if gains else 'float32'}: {times}")
        return half if gains else whole


def find_halvable(network: keras.Model) -> list[keras.layers.Layer]:
    """Return the layers of a network, and of networks in it, that may compute in bfloat16.

    Others keep float32: statistics, sums of many values, and linear layers, whose
    outputs become scores.
    """
    import keras

    layers = keras.layers
    never_halved = (
        layers.BatchNormalization,
        layers.Dense,
        layers.GlobalAveragePooling2D,
        layers.InputLayer,
        layers.Normalization,
        layers.Rescaling,
    )
    layers_inside = list[Any]()
    for layer in network.layers:
        layers_inside += find_halvable(layer) if isinstance(layer, keras.Model) else [layer]
    return [layer for layer in layers_inside if not isinstance(layer, never_halved)]


@contextmanager
def in_half(layers: Sequence[keras.layers.Layer]) -> Iterator[None]:
    """Let layers compute in bfloat16 while a graph of them is made."""
    before = [layer.dtype_policy for layer in layers]
    try:
        for layer in layers:
            layer.dtype_policy = HALF
        yield
    finally:
        for layer, policy in zip(layers, before, strict=True):
            layer.dtype_policy = policy


def _note_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # into the log of the run
