"""The results of compressing a file:
what the files of each task answer, and how far that is from the float file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from advisor.compression import Sizes, from_photographs, to_decibel
from advisor.core import DEFAULT_TASK, TASKS, Interval, StageError, UsageError
from advisor.datasets import InputSpec
from advisor.measurement import (
    Detector,
    predict,
    predict_arrays,
    require_coco,
    score_boxes,
    split_precision,
)
from advisor.tflite import (
    DETECTIONS,
    OPERATOR,
    Model,
    cut_postprocess,
    post_processing,
    with_named_outputs,
)

if TYPE_CHECKING:
    from advisor.measurement import Detections


TrueBoxes = tuple["Detections", tuple[int, int]]
"""The true boxes in an image, their classes in the order of the model,
and its height and width in pixels.
"""

ANY_TASK = "any"
"""Stands for the task of a file that is judged by samples of its inputs."""

NAMED = 4
"""Operators left in float that a note names."""

SCORING_SEED = 1
"""Added to the seed: other crops of the bundled photographs than those for calibration."""

SURE = 0.5
"""Least score of a box of the float file that its forms should find, too."""

SIDES = (100, 100)
"""Sides of an image without true boxes; the overlap of boxes does not depend on them."""


@dataclass(frozen=True)
class FileAgreement:
    """Difference of a compressed file's answers from the float file's.

    Attributes:
        images: number of images, or of samples.
        share: share of images with the same answer, with Wilson's 95 % interval. For detectors the
            mAP@0.5 (0-1), if the boxes that the float file is sure of were the true ones. For
            samples the share in which every output has an error of at most a tenth of its size.
        snr_db: signal-to-noise ratio of the answer; None if both are equal to the last bit, and
            for detectors.
        accuracy: the metric of the task (0-1) with its 95 % interval; None without labels.
        drop: loss of accuracy against float on the same images, with its paired 95 % interval;
            None without labels.
        by_output: the ratio of each output by its name, if there are several; ``snr_db`` is the
            worst.
    """

    images: int
    share: Interval
    snr_db: float | None = None
    accuracy: Interval | None = None
    drop: Interval | None = None
    by_output: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Speed:
    """Median latency of a run on this machine with one thread, and its 95 % interval.

    ``memory_bytes`` is the private memory that loading and the first run add; None if the system
    does not report it. ``verdict`` says whether the figure can be trusted: ``stable``,
    ``unstable`` or ``contended``.
    """

    latency_ms: float
    low: float
    high: float
    memory_bytes: int | None
    verdict: str


@dataclass(frozen=True)
class DelegatedPart:
    """Part of a file's operators that the target's accelerator runs, in a number of ``pieces``.

    ``share`` is that of the arithmetic (0-1);
    ``left`` counts the operators left to the builtin kernels, by reason.
    """

    taken: int
    operators: int
    share: float
    pieces: int
    left: Mapping[str, int]


@dataclass(frozen=True)
class RecipeResult:
    """One recipe and its result.

    Attributes:
        status: ``ok``, ``skipped`` (does not apply) or ``failed``.
        reason: why it is not ``ok``, or why it could not be scored or timed.
        path: the file; empty if there is none.
        seconds: time to make it.
        notes: what the recipe did and found.
    """

    recipe: str
    status: Literal["ok", "skipped", "failed"]
    reason: str = ""
    path: str = ""
    seconds: float = 0.0
    sizes: Sizes | None = None
    taken: DelegatedPart | None = None
    agreement: FileAgreement | None = None
    speed: Speed | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def within(self, max_drop_points: float | None) -> bool:
        """Return whether the loss is within the limit; without a limit, whether there is a
        file.
        """
        if self.status != "ok" or max_drop_points is None:
            return self.status == "ok"
        drop = self.agreement.drop if self.agreement else None
        return drop is not None and 100 * drop.value <= max_drop_points + 1e-9


@dataclass(frozen=True)
class Compression:
    """The result of ``advisor compress``.

    Attributes:
        calibration: the images that activations were calibrated on, in words.
        scored: the images that the files were scored on, in words.
        accelerator: the accelerator that ``taken`` is about.
        max_drop_points: points that a file may lose against float; None for no limit.
        forms: float32 first, then the recipes in the order asked.
        task: name of the task, see :data:`advisor.core.TASKS`; ``ANY`` with samples.
    """

    model: str
    folder: str
    calibration: str
    scored: str
    accelerator: str
    max_drop_points: float | None
    forms: tuple[RecipeResult, ...]
    notes: tuple[str, ...] = ()
    task: str = DEFAULT_TASK

    @property
    def metric(self) -> str:
        """The metric of the task; empty with samples."""
        if self.task == ANY_TASK:
            return ""
        return TASKS[self.task].metric

    @property
    def good(self) -> tuple[RecipeResult, ...]:
        """Return the files that were made and keep within the limit."""
        return tuple(form for form in self.forms[1:] if form.within(self.max_drop_points))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        rows = [
            {**asdict(form), "within": form.within(self.max_drop_points)} for form in self.forms
        ]
        return {"schema_version": 3, **asdict(self), "metric": self.metric, "forms": rows}


def notes_text(notes: Mapping[str, Any]) -> str:
    """Return a recipe's notes as a sentence; empty if there are none."""
    return "; ".join(_explain_notes(notes))


def _explain_notes(notes: Mapping[str, Any]) -> Iterator[str]:
    left = notes.get("float_operators")
    if left is not None:
        more = ""
        if len(left) > NAMED:
            more = f" and {len(left) - NAMED} more"
        named = ""
        if left:
            named = f": {', '.join(map(str, left[:NAMED]))}{more}"
        yield f"{len(left)} operators left in float{named}"
        if "float_share" in notes:
            yield f"they compute {notes['float_share']:.0%} of the multiply-accumulates"
        if "drop_points" in notes and "int8_drop_points" in notes:
            scored = f"{notes.get('judged_on', 0)} images that chose it"
            yield (
                f"loses {notes['drop_points']:.1f} points on {scored}, int8 loses"
                f" {notes['int8_drop_points']:.1f}"
            )
    if "zero_share" in notes:
        yield f"{notes['zero_share']:.0%} of the weights are 0"
    learning = notes.get("learning")
    if isinstance(learning, Mapping) and "steps" in learning and "seconds" in learning:
        yield f"trained {learning['steps']} steps in {learning['seconds']:.0f} s"


class Classifiers:
    """Files that give one row of scores."""

    def classes(self, _data: bytes, model: Model, name: str) -> int:
        """Return the number of classes; a UsageError if the outputs are not those of the task."""
        outputs = model.outputs
        if (
            len(outputs) != 1
            or len(outputs[0].shape) < 2
            or outputs[0].elements != outputs[0].shape[-1]
        ):
            shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in outputs)
            raise UsageError(
                f"{name} gives {shapes}, not one row of scores", "the output must be 1 x classes"
            )
        return outputs[0].shape[-1]

    def answers(
        self, path: Path, images: Sequence[Path], spec: InputSpec, seed: int
    ) -> NDArray[np.float32]:
        """Return the scores of images, or of the bundled photographs if there are none,
        float32 (n, classes).

        One that is not finite is a StageError.
        """
        if images:
            scores = predict(path, images, spec)
        else:
            scores = predict_arrays(path, from_photographs(spec, seed + SCORING_SEED))
        if not np.isfinite(scores).all():
            raise StageError(f"{path.name} gives values that are not finite")
        return scores

    def compare(
        self, scores: NDArray[np.float32], floats: NDArray[np.float32], labels: Sequence[int]
    ) -> FileAgreement:
        """Compare scores, float32 (n, classes), with the float file's,
        and with the labels if they are known.
        """
        answers = scores.argmax(axis=1)
        expected = floats.argmax(axis=1)
        same = int((answers == expected).sum())
        signal = _sum_squares(floats)
        noise = _sum_squares(scores - floats)
        agreement = FileAgreement(
            len(scores), Interval.wilson(same, len(scores)), to_decibel(signal, noise)
        )
        if not labels:
            return agreement
        right = (answers == np.asarray(labels)).tolist()
        float_right = (expected == np.asarray(labels)).tolist()
        accuracy = Interval.wilson(sum(right), len(right))
        return replace(
            agreement, accuracy=accuracy, drop=Interval.paired_difference(float_right, right)
        )

    def notes(self, _model: Model) -> Iterator[str]:
        """Yield remarks on the forms of a file."""
        yield from ()


def _sum_squares(values: NDArray[np.float32]) -> float:
    # In float64: a sum of many squares loses digits in float32.
    return float((values.astype(np.float64) ** 2).sum())


class Detectors:
    """Files that end in post-processing."""

    def classes(self, data: bytes, _model: Model, name: str) -> int:
        """Return the number of classes; a UsageError if the file does not end in
        post-processing.
        """
        require_coco()
        return cut_postprocess(data, name)[1].classes

    def answers(
        self, path: Path, images: Sequence[Path], spec: InputSpec, seed: int
    ) -> list[Detections]:
        """Return what is found in images, or in the bundled photographs if there are none."""
        with tempfile.TemporaryDirectory() as folder:
            named = Path(folder) / path.name
            named.write_bytes(with_named_outputs(path.read_bytes(), path.name))
            detector = Detector(named, spec)
            if images:
                return list(map(detector, images))
            return list(map(detector.answer_for, from_photographs(spec, seed + SCORING_SEED)))

    def compare(
        self, boxes: list[Detections], floats: list[Detections], labels: Sequence[TrueBoxes]
    ) -> FileAgreement:
        """Compare boxes with the float file's, and with the true ones if they are known.

        Agreement is the mAP@0.5 where the boxes that the float file is sure of are the true ones.
        """
        expected = [boxes_of_image.above(SURE) for boxes_of_image in floats]
        agreement = FileAgreement(len(boxes), _compute_precision(expected, boxes))
        if not labels:
            return agreement
        true = [boxes_of_image for boxes_of_image, _ in labels]
        sizes = [size for _, size in labels]
        places = _number_classes(true)
        count = len(places)
        boxes = _relabel_all(boxes, places)
        true = _relabel_all(true, places)
        floats = _relabel_all(floats, places)
        accuracy = score_boxes(true, boxes, sizes, count).half
        shares = split_precision(true, boxes, sizes, count).tolist()
        float_shares = split_precision(true, floats, sizes, count).tolist()
        return replace(
            agreement, accuracy=accuracy, drop=Interval.paired_shares(float_shares, shares)
        )

    def notes(self, model: Model) -> Iterator[str]:
        """Yield remarks on the forms of a file."""
        yield f"each form has the post-processing of the file ({OPERATOR})"
        order = [
            model.subgraphs[0].outputs.index(tensor) for tensor in post_processing(model).outputs
        ]
        if order != sorted(order):
            yield (
                f"the outputs of the forms are {', '.join(DETECTIONS)}, in this order; your file"
                " has another order"
            )


def _compute_precision(true: list[Detections], detected: list[Detections]) -> Interval:
    """Return the mAP@0.5; the whole range from 0 to 1 where there is no true box."""
    places = _number_classes(true)
    if not places:
        return Interval(1.0, 0.0, 1.0)
    sides = [SIDES] * len(true)
    return score_boxes(
        _relabel_all(true, places), _relabel_all(detected, places), sides, len(places)
    ).half


def _relabel_all(detections: list[Detections], places: Mapping[int, int]) -> list[Detections]:
    return [boxes_of_image.relabel_boxes(places) for boxes_of_image in detections]


def _number_classes(true: list[Detections]) -> Mapping[int, int]:
    """Return numbers for the classes of the true boxes;
    other classes of the detector have no precision here.
    """
    labels = set[int]()
    for boxes_of_image in true:
        labels.update(map(int, boxes_of_image.labels))
    return {label: place for place, label in enumerate(sorted(labels))}


@cache
def map_file_kinds() -> Mapping[str, Classifiers | Detectors]:
    """Return the files of each task."""
    return dict(zip(TASKS, (Classifiers(), Detectors()), strict=False))


def answer(path: Path, task: str, images: Sequence[Path], spec: InputSpec, seed: int) -> Any:
    """Return the answers to images, or to bundled photographs, in a child process."""
    return map_file_kinds()[task].answers(path, images, spec, seed)
