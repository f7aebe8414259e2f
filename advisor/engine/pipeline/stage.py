"""Declaration of a stage: its name, its inputs, its job, the resources it takes and its cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from advisor.catalog.cards import Card, WeightsFile
from advisor.datasets.images import InputSpec
from advisor.engine.pipeline.images import Images, Part
from advisor.engine.pipeline.names import StageName
from advisor.isolation import Limits
from advisor.isolation.pool import EXPECTED_BYTES, LIGHT
from advisor.measurement.host import Host
from advisor.store import ArtifactCache
from advisor.store.files import sha256_file

Result = TypeVar("Result")

Inputs = Mapping[str, object]
"""Everything that a stage's result depends on, as JSON values. Its hash is the key in the artifact cache."""

Job = partial[Any]
"""A function of a module with its arguments, to be called in a child process."""

Epochs = Callable[[Path], tuple[int, int] | None]
"""Reads from a folder of checkpoints how many epochs of how many are done."""

WORK_LIMITS = Limits(seconds=1800, memory_bytes=3_000_000_000)


class Purpose(StrEnum):
    """The purpose of a trained model.

    ``COMPARE``: fitted to the training part alone, so that the validation part tells candidates apart. ``SHIP``: the
    same recipe fitted to everything but the hold-out, which is what goes to the phone.
    """

    COMPARE = "compare"
    SHIP = "ship"


class Pool(StrEnum):
    """The place of a job."""

    LIGHT = "light"
    """A child process without TensorFlow."""
    HEAVY = "heavy"
    """A child process with TensorFlow."""
    TRAINERS = "trainers"
    """A child process with TensorFlow that sees the GPU."""
    DEVICE = "device"
    """The machine that the device is attached to, with nothing else running on it."""


@dataclass(frozen=True)
class Resources:
    """The resources of a stage while it runs.

    Attributes:
        pool: where its job runs.
        memory_bytes: expected memory; the job begins when as much is free.
        limits: time and memory beyond which the job is ended.
        long: it takes many minutes: it comes after all other jobs, keeps checkpoints and reports epochs.
    """

    pool: Pool = Pool.LIGHT
    memory_bytes: int = EXPECTED_BYTES[LIGHT]
    limits: Limits = WORK_LIMITS
    long: bool = False

    @property
    def alone(self) -> bool:
        """True where the stage holds the whole machine."""
        return self.pool is Pool.DEVICE


@dataclass(frozen=True)
class Scope:
    """The owner of a stage: a card, and parts of a variant.

    Attributes:
        card: name of the model card.
        training: training recipe; empty where all trainings of the card share the stage.
        compression: compression recipe; empty where all compressions of the training share it.
        purpose: of a model that is trained twice; empty where there is one.
        detail: tells stages of one name apart, such as a part of the images.
    """

    card: str
    training: str = ""
    compression: str = ""
    purpose: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Materials:
    """Inputs that the stages of a search share.

    Attributes:
        cache: results of earlier stages.
        images: the user's images, or None.
        weights: weights file of each card by name; None for fixed-seed random weights.
        host: the machine that measures.
        thread_counts: CPU thread counts to measure.
        seed: of training, calibration and hyperparameter trials.
        max_drop_points: points that a compressed file may lose.
        robust: candidates are compared under capture conditions.
        effort: name of the effort of a timing, see :mod:`advisor.measurement.latency.timing`.
    """

    cache: ArtifactCache
    images: Images | None
    weights: Mapping[str, WeightsFile | None]
    host: Host
    thread_counts: tuple[int, ...] = (1,)
    seed: int = 0
    max_drop_points: float | None = None
    robust: bool = False
    effort: str = "search"

    def require_images(self) -> Images:
        """Return the images; stages that need them are in no graph without."""
        assert self.images is not None, "the graph asks for images only where there are some"
        return self.images

    def weights_source(self, card: Card) -> str:
        """Return where the card's weights came from, empty where it has fixed-seed random ones."""
        weights = self.weights[card.name]
        return weights.source if weights else ""


class Results:
    """The results of the stages that a stage comes after."""

    def __init__(self, values: Mapping[Stage[Any], object]) -> None:
        self._values = values

    def __getitem__(self, stage: Stage[Result]) -> Result:
        return cast("Result", self._values[stage])


@dataclass(frozen=True)
class Folders:
    """The folders that a job writes to.

    Attributes:
        out: takes the result; it goes into the cache as a whole.
        checkpoints: survives a job that is ended, so that the next try goes on from there.
    """

    out: Path
    checkpoints: Path

    @property
    def model(self) -> Path:
        """The ``.tflite`` that the job writes."""
        return self.out / MODEL


MODEL, RESULT = "model.tflite", "result.json"


@dataclass(frozen=True)
class Stage(Generic[Result]):
    """One piece of work: a node of the graph of a variant.

    Two stages with the same name and scope are the same stage: it runs once in a search. Two stages with the same
    version and inputs have the same result: it is kept in the artifact cache for the next search.

    Attributes:
        name: what it does.
        scope: what it belongs to.
        version: raised whenever the same inputs would give another result.
        doing: what progress says, before the card's name.
        after: the stages whose results it needs.
        inputs: everything that its result depends on.
        job: the work, as a function with its arguments; what it returns is kept as ``result.json``.
        read: reads the result from the folder.
        cost_s: rough seconds on the reference machine, see :mod:`advisor.engine.pipeline.cost`.
        resources: what it takes while it runs.
        reads: the images that the job reads; they must not change meanwhile.
        unsupported: why the card cannot have this stage; empty where it can.
        keep_if: called with the job's return value; False if the result must not be cached. None caches every result.
        also_kept_as: other inputs under which a cached result is as good.
        when_done: called with the folder once it is there.
        epochs: how far a long job is.
    """

    name: StageName
    scope: Scope
    version: str = field(compare=False)
    doing: str = field(compare=False, repr=False)
    after: tuple[Stage[Any], ...] = field(compare=False, repr=False)
    inputs: Callable[[Materials, Results], Inputs] = field(compare=False, repr=False)
    job: Callable[[Materials, Results, Folders], Job] = field(compare=False, repr=False)
    read: Callable[[Path], Result] = field(compare=False, repr=False)
    cost_s: float = field(default=0.0, compare=False, repr=False)
    resources: Resources = field(default=Resources(), compare=False, repr=False)
    reads: Callable[[Materials], Part] | None = field(default=None, compare=False, repr=False)
    unsupported: str = field(default="", compare=False, repr=False)
    keep_if: Callable[[Any], bool] | None = field(default=None, compare=False, repr=False)
    also_kept_as: Callable[[Materials, Results], Inputs] | None = field(default=None, compare=False, repr=False)
    when_done: Callable[[Materials, Results, Path], None] | None = field(default=None, compare=False, repr=False)
    epochs: Callable[[Materials, Results], Epochs] | None = field(default=None, compare=False, repr=False)

    @property
    def folder(self) -> str:
        """Name of its folder in the cache: name and version."""
        return f"{self.name}-{self.version}"

    @property
    def subject(self) -> str:
        """What progress shows: what is done, and to which card."""
        return f"{self.doing} {self.scope.card}"


@dataclass(frozen=True)
class FloatModel:
    """A float ``.tflite`` of a card, the origin of its artefacts.

    Attributes:
        path: the file.
        sha256: its hash.
    """

    path: Path
    sha256: str

    @classmethod
    def within(cls, folder: Path) -> FloatModel:
        """Return the file that a stage left in its folder."""
        return cls(folder / MODEL, sha256_file(folder / MODEL))


@dataclass(frozen=True)
class Artefact:
    """One ``.tflite`` that could ship.

    Attributes:
        path: the file.
        sha256: its hash.
        size_bytes: its size.
        figures: ``arena_bytes``, ``download_bytes`` (deflated) and ``download_zstd_bytes``.
        notes: what the recipe did and found, where it says more than its name.
    """

    path: Path
    sha256: str
    size_bytes: int
    figures: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path, sha256: str) -> Artefact:
        """Return a file that a run keeps."""
        return cls(path, sha256, path.stat().st_size)


Source = Stage[Artefact] | Artefact
"""A file that a stage will make, or one that is there."""


def artefact_of(source: Source, results: Results) -> Artefact:
    """Return the file of a source."""
    return source if isinstance(source, Artefact) else results[source]


def after(source: Source) -> tuple[Stage[Any], ...]:
    """Return what must be done before the file of a source is there."""
    return () if isinstance(source, Artefact) else (source,)


def read_result(folder: Path) -> Any:
    """Return what the job of a stage returned, None where it returned nothing."""
    file = folder / RESULT
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def input_spec(card: Card) -> InputSpec:
    """Return how images become this card's input."""
    return InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions, read without importing anything."""
    return {package: version(package) for package in packages}
