"""Declare what a stage is: its name, its inputs, its job and the error that ends it.

The functions of ``stages/`` make stages, ``graph.py`` puts them together, and ``walker.py`` runs
them. Names and versions are the folders of the cache, the hash of ``inputs`` is the key in it, and
names are in the manifest and ``evaluations.jsonl`` of every run. So a name stays as it is, and a
stage whose result changes gets a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from advisor.core import AdvisorError, RuntimeRefusal, StageError, Status, UnsupportedRecipe
from advisor.engine._pipeline.resources import WORK_LIMITS, Pool, Resources
from advisor.isolation import PoolKind
from advisor.store import read_cached_sha256

if TYPE_CHECKING:
    from advisor.engine._pipeline.images import Part
    from advisor.engine._pipeline.materials import Artefact, Materials

MODEL = "model.tflite"
RESULT = "result.json"
"""The file that a job writes, and what it returned, in the folder of its result in the cache."""

# Of an image whose features a stage holds: two copies of 5,000 floats;
# EfficientNet-Lite0 has 3,488 features.
ROW_BYTES = 40_000

LIGHT_WORK = Resources()

ALONE = Resources(Pool.DEVICE)


class StageName(StrEnum):
    """The stages of a search, in the order of the work.

    Progress, durations, costs, the report's funnel and ``Evaluation.stage`` (the stage that ended
    an evaluation) use these names and this order. A finalist's finished file is scored once more.
    The first three and ``STOP`` are decisions: they end an evaluation and run no job.
    """

    PLAN = "plan"  # Ruled out by what is known beforehand: the size of the file or its licence
    PREDICT = "predict"  # Predicted to be too slow, or not compatible with the device
    PROMOTION = "promotion"  # Its fine-tuning is not worth its time
    CONVERT = "convert"  # Graph file or Keras graph to a float ``.tflite`` with two outputs
    CUT = "cut"  # The float file with one of its outputs
    SCREEN = "screen"  # CPU time of the backbone: a card that is far too slow is not trained
    FEATURES = "features"  # The backbone's features of the images
    LABELS = "labels"  # Likely wrong labels of a data set, for ``advisor data check``
    EXPECTATION = "expectation"
    """The share of right answers that the card keeps on images of another visit, camera or day."""
    # The head, fitted to the training part; a detector with its head, to compare or to ship.
    HEAD = "head"
    REFIT = "refit"  # The head that ships, fitted to everything but the hold-out
    JOIN = "join"  # Backbone and head in one file
    FINETUNE_CACHED = "finetune_cached"  # The last blocks fine-tuned on cached maps
    FINETUNE_TOP = "finetune_top"  # The last layers fine-tuned
    FINETUNE_ALL = "finetune_all"  # All layers fine-tuned
    # Activations on the calibration images, and the weights that all forms of a file share.
    CALIBRATE = "calibrate"
    COMPRESS = "compress"  # One compression recipe, labels and normalisation written into the file
    # The compressed file with its head adjusted to the features that its own backbone gives.
    ADJUST = "adjust"
    SCORE = "score"  # Answers of the file on images
    CONFIDENCE = "confidence"  # The temperature of the file's probabilities, folded into its head
    PROBE = "probe"  # Features and logits of a classifier, to find images of unknown things
    UNKNOWN = "unknown"  # A finalist with one more class, for things that are none of the classes
    CAPTURE = "capture"  # Top-1 of the file on images under capture conditions
    # Agreement with the float file on bundled photographs, if there are no images.
    ANSWERS = "answers"
    TIMING = "timing"  # Latency and memory of the file on the target
    ONNX = "twin"
    """The export for another runtime of this machine;
    the older name is in cache keys and in the durations of runs.
    """
    RUNTIME = "runtime"  # Latency and memory of the file in another runtime of this machine
    # The memory that the file needs in a microcontroller's interpreter, measured on this machine.
    ARENA = "arena"
    STOP = "stop"  # Not evaluated before the search ended; a run that is resumed evaluates it


Result = TypeVar("Result")

Inputs = Mapping[str, object]
"""Everything that a stage's result depends on, as JSON values.
Its hash is the key in the artifact cache.
"""

Job = partial[Any]  # A function of a module with its arguments, to be called in a child process

EpochCount = tuple[int, int, float]
"""Epochs that are done, all epochs, and the share (0-1) of the job's seconds that is over."""

Epochs = Callable[[Path], EpochCount | None]
"""Reads from a folder of checkpoints how far a training is; None before its first epoch."""


def reserve_feature_memory(images: int) -> Resources:
    """Return the resources of a stage that holds the features of so many images in memory."""
    features_bytes = ROW_BYTES * images
    limits = replace(WORK_LIMITS, memory_bytes=WORK_LIMITS.memory_bytes + features_bytes)
    return Resources(memory_bytes=PoolKind.LIGHT.expected_bytes + features_bytes, limits=limits)


@dataclass(frozen=True)
class Scope:
    """The owner of a stage: a card, and parts of a variant;
    an empty part means that all variants share the stage.

    The purpose is that of a model that is trained twice. ``detail`` tells stages of one name
    apart, such as a part of the images.
    """

    card: str
    training: str = ""
    compression: str = ""
    purpose: str = ""
    detail: str = ""


class Results:
    """The results of the stages that a stage needs."""

    def __init__(self, values: Mapping[Stage[Any], object]) -> None:
        self._values = values

    def __getitem__(self, stage: Stage[Result]) -> Result:
        return cast("Result", self._values[stage])

    def sha256(self, stage: Stage[Path]) -> str:
        """Return the SHA-256 of the file that a stage made."""
        return read_cached_sha256(self[stage])


@dataclass(frozen=True)
class Folders:
    """The folders that a job writes to.

    ``out`` goes into the cache as a whole;
    ``checkpoints`` survives a job that is ended, and the next try continues from it.
    """

    out: Path
    checkpoints: Path

    @property
    def model(self) -> Path:
        """The ``.tflite`` that the job writes."""
        return self.out / MODEL


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stage(Generic[Result]):
    """One piece of work: a node of the graph of a variant.

    Two stages with the same name and scope are the same stage: it runs once in a search. Two
    stages with the same name, version and inputs have the same result: it is kept in the artifact
    cache for the next search.
    """

    name: StageName
    scope: Scope
    version: str  # raised whenever the same inputs would give another result
    doing: str  # what progress says, before the card's name
    after: tuple[Stage[Any], ...]  # the stages whose results it needs
    inputs: Callable[[Materials, Results], Inputs]  # everything that its result depends on
    # The work; what it returns is kept as ``result.json``.
    job: Callable[[Materials, Results, Folders], Job]
    read: Callable[[Path], Result]  # reads the result from the folder
    # Rough price, in CPU seconds of the reference machine; seconds by the clock of a stage that
    # runs alone. See :mod:`advisor.engine._pipeline.cost`.
    cost_s: float = 0.0
    resources: Resources = LIGHT_WORK
    # The images that the job reads; they must not change meanwhile.
    reads: Callable[[Materials], Part] | None = None
    unsupported: str = ""  # why the card cannot have this stage; empty where it can
    # Called with the job's return value; False if the result must not be cached. None caches every
    # result. A result that is not cached lies with the job's checkpoints, from which a later
    # search continues.
    keep_if: Callable[[Any], bool] | None = None
    # Inputs under which a cached result is as good.
    also_kept_as: Callable[[Materials, Results], Inputs] | None = None
    # Called with the folder once it is there.
    when_done: Callable[[Materials, Results, Path], None] | None = None
    epochs: Callable[[Materials, Results], Epochs] | None = None  # how far a long job is
    shortens: bool = False  # a plan within a time limit may count on a part of this training

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stage) and (self.name, self.scope) == (other.name, other.scope)

    def __hash__(self) -> int:
        return hash((self.name, self.scope))

    @property
    def folder(self) -> str:
        """Name of its folder in the cache: name and version."""
        return f"{self.name}-{self.version}"

    @property
    def subject(self) -> str:
        """The text that progress shows: the work and the card."""
        return f"{self.doing} {self.scope.card}"


# A file that a stage will make, or one that is there.
Source: TypeAlias = "Stage[Artefact] | Artefact"


def result_of(source: Stage[Result] | Result, results: Results) -> Result:
    """Return what a stage made, or a value that is there."""
    return results[source] if isinstance(source, Stage) else source


def after(source: Stage[Any] | object) -> tuple[Stage[Any], ...]:
    """Return the stage that makes a source, as the stages to come after; nothing for a file that
    is there, or for None.
    """
    return (source,) if isinstance(source, Stage) else ()


class StageAborted(StageError):
    """A stage ended an evaluation, which is ``failed`` or ``skipped``, for a reason in words."""

    def __init__(self, status: Status, stage: StageName, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.stage = stage
        self.reason = reason


def abort_stage(error: AdvisorError | OSError, stage: StageName, recipe: str) -> StageAborted:
    """Return the stage error for an error of a job.

    If the runtime cannot run the file that a ``recipe`` made, the evaluation is skipped;
    for float32 it has failed.
    """
    if isinstance(error, OSError):
        return StageAborted(
            Status.FAILED, stage, f"{error.strerror or error}: {error.filename or ''}"
        )
    if isinstance(error, UnsupportedRecipe):
        return StageAborted(Status.SKIPPED, stage, error.message)
    if isinstance(error, RuntimeRefusal) and recipe not in ("", "float32"):
        return StageAborted(
            Status.SKIPPED, stage, f"this runtime cannot run {recipe}: {error.message}"
        )
    return StageAborted(Status.FAILED, stage, error.message)
