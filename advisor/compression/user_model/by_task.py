"""The kinds of files by task: their answers, and the comparison with their float file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.compression.calibration import from_photographs
from advisor.compression.diagnosis.values import decibel
from advisor.compression.user_model.values import FileAgreement, TrueBoxes
from advisor.core.errors import StageError, UsageError
from advisor.core.quantity import Interval, paired_difference, paired_shares, wilson
from advisor.core.tasks import TASKS
from advisor.datasets.images import InputSpec
from advisor.measurement.accuracy import Detector, predict, predict_arrays, true_boxes
from advisor.measurement.average_precision import require_coco, score, shares
from advisor.tflite.model import Model
from advisor.tflite.postprocess import DETECTIONS, OPERATOR, cut_postprocess, post_processing, with_named_outputs

if TYPE_CHECKING:
    from advisor.measurement.accuracy import Detections

SCORING_SEED = 1
"""Added to the seed: other crops of the bundled photographs than those for calibration."""

SURE = 0.5
"""Least score of a box of the float file that its forms should find, too."""

SIDES = (100, 100)
"""Sides of an image without true boxes; the overlap of boxes does not depend on them."""


class TaskFiles(Protocol):
    """The files of one task."""

    def classes(self, data: bytes, model: Model, name: str) -> int:
        """Return the number of classes; a UsageError if the outputs are not those of the task."""

    def answers(self, path: Path, images: Sequence[Path], spec: InputSpec, seed: int) -> Any:
        """Return the answers of a file to images, or to the bundled photographs if there are none."""

    def compare(self, own: Any, floats: Any, labels: Sequence[Any]) -> FileAgreement:
        """Compare answers with the float file's, and with the truth if it is known."""

    def notes(self, _model: Model) -> Iterator[str]:
        """Yield remarks on the forms of a file."""
        yield from ()


class Classifiers(TaskFiles):
    """Files that give one row of scores."""

    def classes(self, _data: bytes, model: Model, name: str) -> int:
        """See :class:`TaskFiles`."""
        outputs = model.outputs
        if len(outputs) != 1 or len(outputs[0].shape) < 2 or outputs[0].elements != outputs[0].shape[-1]:
            shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in outputs)
            raise UsageError(f"{name} gives {shapes}, not one row of scores", "the output must be 1 x classes")
        return outputs[0].shape[-1]

    def answers(self, path: Path, images: Sequence[Path], spec: InputSpec, seed: int) -> NDArray[np.float32]:
        """Return the scores, float32 (n, classes); one that is not finite is a StageError."""
        crops = () if images else from_photographs(spec, seed + SCORING_SEED)
        rows = predict(path, images, spec) if images else predict_arrays(path, crops)
        if not np.isfinite(rows).all():
            raise StageError(f"{path.name} gives values that are not finite")
        return rows

    def compare(self, own: NDArray[np.float32], floats: NDArray[np.float32], labels: Sequence[int]) -> FileAgreement:
        """See :class:`TaskFiles`; answers are float32 (n, classes), and labels are empty if they are not known."""
        answers, expected = own.argmax(axis=1), floats.argmax(axis=1)
        same = int((answers == expected).sum())
        signal, noise = (float((values.astype(np.float64) ** 2).sum()) for values in (floats, own - floats))
        alike = FileAgreement(len(own), wilson(same, len(own)), decibel(signal, noise))
        if not labels:
            return alike
        right, float_right = ((row == np.asarray(labels)).tolist() for row in (answers, expected))
        return replace(alike, accuracy=wilson(sum(right), len(right)), drop=paired_difference(float_right, right))


class Detectors(TaskFiles):
    """Files that end in post-processing."""

    def classes(self, data: bytes, _model: Model, name: str) -> int:
        """See :class:`TaskFiles`."""
        require_coco()
        return cut_postprocess(data, name)[1].classes

    def answers(self, path: Path, images: Sequence[Path], spec: InputSpec, seed: int) -> list[Detections]:
        """See :class:`TaskFiles`."""
        with tempfile.TemporaryDirectory() as folder:
            named = Path(folder) / path.name
            named.write_bytes(with_named_outputs(path.read_bytes(), path.name))
            detector = Detector(named, spec)
            if images:
                return [detector(image) for image in images]
            return [detector.found_in(array) for array in from_photographs(spec, seed + SCORING_SEED)]

    def compare(self, own: list[Detections], floats: list[Detections], labels: Sequence[TrueBoxes]) -> FileAgreement:
        """See :class:`TaskFiles`.

        Agreement is the mAP@0.5 where the boxes that the float file is sure of are the true ones.
        """
        expected = [one.above(SURE) for one in floats]
        alike = FileAgreement(len(own), _precision(expected, own))
        if not labels:
            return alike
        true, sizes = [true_boxes(one.rows) for one in labels], [one.size for one in labels]
        places = _places(true)
        renamed, wanted, of_float = ([one.relabelled(places) for one in rows] for rows in (own, true, floats))
        reached = score(wanted, renamed, sizes, len(places)).half
        each, of_floats = (shares(wanted, rows, sizes, len(places)).tolist() for rows in (renamed, of_float))
        return replace(alike, accuracy=reached, drop=paired_shares(of_floats, each))

    def notes(self, model: Model) -> Iterator[str]:
        """See :class:`TaskFiles`."""
        yield f"each form has the post-processing of the file ({OPERATOR})"
        order = [model.subgraphs[0].outputs.index(tensor) for tensor in post_processing(model).outputs]
        if order != sorted(order):
            yield f"the outputs of the forms are {', '.join(DETECTIONS)}, in this order; your file has another order"


def _precision(true: list[Detections], found: list[Detections]) -> Interval:
    """Return the mAP@0.5; the whole range from 0 to 1 where there is no true box."""
    places = _places(true)
    if not places:
        return Interval(1.0, 0.0, 1.0)
    renamed, wanted = ([one.relabelled(places) for one in rows] for rows in (found, true))
    return score(wanted, renamed, [SIDES] * len(true), len(places)).half


def _places(true: list[Detections]) -> Mapping[int, int]:
    """Return numbers for the classes of the true boxes; other classes of the detector have no precision here."""
    return {label: place for place, label in enumerate(sorted({int(label) for one in true for label in one.labels}))}


KINDS: Mapping[str, TaskFiles] = dict(zip(TASKS, (Classifiers(), Detectors()), strict=False))
"""The files of each task."""


def answer(path: Path, task: str, images: Sequence[Path], spec: InputSpec, seed: int) -> Any:
    """Return the answers to images, or to bundled photographs, in a child process; see :meth:`TaskFiles.answers`."""
    return KINDS[task].answers(path, images, spec, seed)
