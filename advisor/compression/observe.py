"""What a float model's activations look like on calibration pictures: one run, of which every form takes its share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLES_A_PICTURE = 1000
"""Values kept of each tensor and picture: 100 pictures give a tensor's distribution to a percent."""


@dataclass(frozen=True, eq=False)
class Activation:
    """One tensor over n pictures, by channel (its last axis).

    Attributes:
        lows: least value, float32 (n, C).
        highs: greatest value, float32 (n, C).
        means: float64 (C,).
        samples: values at some positions, float32 (k, C).
    """

    lows: NDArray[np.float32]
    highs: NDArray[np.float32]
    means: NDArray[np.float64]
    samples: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Observation:
    """A model's activations by tensor index: its input and every operator's float output."""

    activations: Mapping[int, Activation]


class Observer:
    """Keeps the last observation: the forms of one model ask for the same one after another."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._kept: Observation | None = None

    def __call__(self, data: bytes, pictures: NDArray[np.float32]) -> Observation:
        """Return :func:`observe` of the same arguments."""
        from hashlib import sha256

        key = (sha256(data).hexdigest(), sha256(pictures.tobytes()).hexdigest())
        if self._kept is None or key != self._key:
            self._key, self._kept = key, observe(data, pictures)
        return self._kept


def observe(data: bytes, pictures: NDArray[np.float32]) -> Observation:
    """Run a float ``.tflite`` over normalised pictures, float32 (n, S, S, 3), and note every activation.

    Raises:
        UsageError: the file is damaged.
        StageError: an activation is not finite.
    """
    interpreter, source, tensors = _everything(data)
    notes = {index: _Notes(len(pictures)) for index in tensors}
    for place, picture in enumerate(pictures):
        interpreter.set_tensor(source, picture[None])
        interpreter.invoke()
        for index in tensors:
            value = interpreter.get_tensor(index)
            notes[index].add(place, value.reshape(-1, value.shape[-1] if value.ndim else 1))
    return Observation({index: note.activation() for index, note in notes.items()})


def _everything(data: bytes) -> tuple[Any, int, list[int]]:
    """Return an interpreter that gives every float activation as an output: kernels then stay those of the runtime."""
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter

    from advisor.tflite.rewrite import pack, unpack

    model = unpack(data)
    graph = model.subgraphs[0]
    source = graph.inputs[0]
    outputs = {index for operator in graph.operators for index in operator.outputs}
    kept = [index for index in sorted(outputs) if graph.tensors[index].type == schema.TensorType.FLOAT32]
    graph.outputs, model.signatureDefs = kept, []
    interpreter = Interpreter(model_content=pack(model), num_threads=1)
    interpreter.allocate_tensors()
    return interpreter, source, sorted({source, *kept})


class _Notes:
    """Takes one tensor's value of each picture."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lows: Any = None

    def add(self, place: int, value: NDArray[np.float32]) -> None:
        """Note the value (positions, C) of picture ``place``."""
        import numpy as np

        if self._lows is None:
            self._begin(value)
        self._lows[place], self._highs[place] = value.min(axis=0), value.max(axis=0)
        self._sums += value.mean(axis=0, dtype=np.float64)
        self._samples[place] = value[self._positions]

    def _begin(self, value: NDArray[np.float32]) -> None:
        import numpy as np

        positions, channels = value.shape
        wanted = min(positions, max(1, -(-SAMPLES_A_PICTURE // channels)))
        self._positions = np.sort(np.random.default_rng(0).permutation(positions)[:wanted])
        self._lows = np.empty((self._count, channels), np.float32)
        self._highs = np.empty((self._count, channels), np.float32)
        self._sums = np.zeros(channels, np.float64)
        self._samples = np.empty((self._count, wanted, channels), np.float32)

    def activation(self) -> Activation:
        """Return what was noted."""
        import numpy as np

        if not (np.isfinite(self._lows).all() and np.isfinite(self._highs).all()):
            raise StageError("the float model gives values that are not finite on the calibration pictures")
        samples = self._samples.reshape(-1, self._samples.shape[-1])
        return Activation(self._lows, self._highs, self._sums / self._count, samples)
