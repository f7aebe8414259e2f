"""Run a ``.tflite`` detector on images with LiteRT, and keep the boxes that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import RuntimeRefusal, StageError
from advisor.datasets.images import InputSpec
from advisor.isolation.agent import one_line
from advisor.measurement.processes.model_file import existing_model
from advisor.tflite.postprocess import DETECTIONS
from advisor.tflite.quantization import quantize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Detections:
    """The boxes in one image, true or found.

    Attributes:
        boxes: float32 (n, 4): top, left, bottom and right in shares of the image.
        labels: index of the class of each, int64 (n,).
        scores: float32 (n,), the highest first; ones for true boxes.
    """

    boxes: Floats
    labels: NDArray[np.int64]
    scores: Floats

    def above(self, least: float) -> Detections:
        """Return the boxes with at least this score."""
        sure = self.scores >= least
        return Detections(self.boxes[sure], self.labels[sure], self.scores[sure])

    def relabelled(self, places: Mapping[int, int]) -> Detections:
        """Return the boxes of some classes under other labels, without the boxes of all other classes."""
        import numpy as np

        kept = np.isin(self.labels, list(places))
        labels = np.array([places[label] for label in self.labels[kept].tolist()], np.int64)
        return Detections(self.boxes[kept], labels, self.scores[kept])


class Detector:
    """A loaded detector with post-processing, see :func:`advisor.tflite.postprocess.append_postprocess`.

    Args:
        model: a ``.tflite`` file with one image input (1, size, size, 3), float or quantised.
        view: how an image becomes the model's input.

    Raises:
        UsageError: the file is missing.
        RuntimeRefusal: the runtime cannot load it.
        StageError: it has other outputs.
    """

    outputs: tuple[str, ...] = DETECTIONS

    def __init__(self, model: Path | str, view: InputSpec) -> None:
        from ai_edge_litert.interpreter import Interpreter

        path = existing_model(model)
        try:
            interpreter = Interpreter(model_path=str(path), num_threads=1)
            self._run: Any = interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"{path.name}: LiteRT cannot load the model: {one_line(error)}") from error
        inputs, outputs = self._run.get_input_details(), self._run.get_output_details()
        if len(inputs) != 1 or set(outputs) != set(self.outputs):
            raise StageError(f"{path.name}: the outputs {', '.join(outputs)} are not those of a detector")
        ((self._name, self._input),) = inputs.items()
        self._view = view

    def __call__(self, path: Path) -> Detections:
        """Return what is found in an image.

        Raises:
            StageError: the image cannot be read.
            RuntimeRefusal: the runtime fails.
        """
        return self.found_in(self._view.read(path))

    def found_in(self, array: Floats) -> Detections:
        """Return what is found in a normalised image, float32 (size, size, 3).

        Raises:
            RuntimeRefusal: the runtime fails.
        """
        image = quantize(array[None], self._input)
        try:
            found = self._run(**{self._name: image})
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(f"LiteRT cannot run the model: {one_line(error)}") from error
        return self.read(found)

    def read(self, found: Mapping[str, Floats]) -> Detections:
        """Return the boxes in the outputs."""
        import numpy as np

        count = int(found["count"].reshape(-1)[0])
        boxes = np.clip(found["boxes"][0, :count], 0.0, 1.0)
        return Detections(boxes, found["classes"][0, :count].astype(np.int64), found["scores"][0, :count])


def save(path: Path, found: Sequence[Detections]) -> None:
    """Write what was found in images as ``.npz``: ``counts`` (N,), and ``boxes``, ``labels`` and ``scores`` of all."""
    import numpy as np

    np.savez(
        path,
        counts=np.array([len(one.labels) for one in found], np.int64),
        boxes=np.concatenate([np.zeros((0, 4), np.float32), *(one.boxes for one in found)]),
        labels=np.concatenate([np.zeros(0, np.int64), *(one.labels for one in found)]),
        scores=np.concatenate([np.zeros(0, np.float32), *(one.scores for one in found)]),
    )


def load(path: Path) -> list[Detections]:
    """Read what :func:`save` wrote."""
    import numpy as np

    with np.load(path, allow_pickle=False) as kept:
        ends = np.cumsum(kept["counts"])[:-1]
        parts = (np.split(kept[name], ends) for name in ("boxes", "labels", "scores"))
        return [Detections(*rows) for rows in zip(*parts, strict=True)]


def true_boxes(rows: Sequence[tuple[int, float, float, float, float]]) -> Detections:
    """Return true boxes given as label, top, left, bottom and right in shares of the image."""
    import numpy as np

    table = np.array(rows, np.float64).reshape(-1, 5)
    labels, boxes = table[:, 0].astype(np.int64), table[:, 1:].astype(np.float32)
    return Detections(boxes, labels, np.ones(len(labels), np.float32))
