"""The protocol of a connection with its job and timings, and the files that other runtimes run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock

from advisor.core import StageError, UsageError, list_registered, load_integration
from advisor.isolation import WAITED_LIMIT, CallLimits, ChildPool, Scratch
from advisor.store import ArtifactCache, cache_root, sha256_file

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings

EXPORTERS = "advisor.exporters"
"""Entry points of :class:`Exporter`:
modules or objects, by the name of the runtime that runs the exports.
"""

SAME_ANSWERS = 0.9  # Least share of inputs with the same answer

SMALL_DIFFERENCE = 0.03
"""Difference as a share of an output's range up to which other answers are near ties. Most exports
have 0 in int8 and 1e-6 in float32; LiteRT's HARD_SWISH in int8 rounds otherwise than ONNX
Runtime's, by 0.02 in MobileNetV3.
"""

LARGEST_DIFFERENCE = 0.1
"""Difference beyond which an export computes something else,
unless LiteRT's own kernels differ as much.
"""

OF_KERNELS = 1.5
"""Largest difference as a multiple of that between LiteRT's own kernels. Rounding adds up in a
deep int8 network: a retrained MobileNetV2 differs by 0.16 from its export, and by 0.19 between
LiteRT with and without XNNPACK.
"""

_REFUSED = "refused.txt"
_FACTS = "facts.json"


@dataclass(frozen=True)
class MeasurementJob:
    """The models to measure, and how."""

    models: tuple[Path, ...]  #: ``.tflite`` files
    threads: tuple[int, ...] = (1,)  #: thread counts; every model is measured at each
    effort: str = "quick"  #: name of the agent's effort, which sets the duration
    timeout_s: float = 600.0  #: seconds after which the measurement fails
    #: runtime that runs the models; one that does not run ``.tflite`` files runs their exports
    runtime: str = "ai-edge-litert"

    def check(self) -> None:
        """Refuse a job without models, with a model that is not a file,
        or with a thread count below 1 (UsageError).
        """
        if not self.models:
            raise UsageError("there is no model to measure", "name at least one .tflite file")
        for model in self.models:
            if not model.is_file():
                raise UsageError(f"{model} is not a file", "give a .tflite file")
        if not self.threads or min(self.threads) < 1:
            raise UsageError(
                f"thread counts {self.threads} are not all at least 1", "give whole numbers from 1"
            )


@dataclass(frozen=True)
class Timing:
    """The latency of one model at one thread count."""

    model: Path  #: the file on this machine
    threads: int  #: number of threads
    median_ms: float  #: median of the runs, or their mean if the device's tool prints no median
    runs: int  #: number of timed runs
    first_ms: float  #: the first run after loading
    load_ms: float  #: time to load the model
    runtime: str  #: runtime and version, such as ``ai-edge-litert==2.3.0``
    #: memory that the model added, as the device's tool measures it, or None
    memory_bytes: int | None = None
    #: all that the device's tool printed, parsed;
    #: of a runtime here a ``SeriesDocument`` with ``load``
    details: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    throttled: str = ""  #: by how much the device slowed down, in words; empty if it did not
    #: median CPU time of the runs at one thread, None if the tool does not tell
    cpu_ms: float | None = None
    #: share of the time that the threads waited for a processor, None if unknown
    waited_share: float | None = None
    placement: str = ""  #: how many operators an accelerator ran, in words; empty for the CPU
    #: further facts in words: the job of a cloud, the answers to the user's images
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse figures that no measurement has; ValueError."""
        # Timings come from programs on other machines.
        # A wrong one would be ranked and could become the pick.
        if not (
            0 < self.own_ms < math.inf
            and 0 <= self.first_ms < math.inf
            and 0 <= self.load_ms < math.inf
        ):
            raise ValueError(
                f"no times: {self.own_ms} ms, first {self.first_ms} ms, loading {self.load_ms} ms"
            )
        if self.threads < 1 or self.runs < 1 or (self.memory_bytes or 0) < 0:
            raise ValueError(
                f"no figures: {self.threads} threads, {self.runs} runs, {self.memory_bytes} bytes"
            )

    @property
    def own_ms(self) -> float:
        """The CPU time, which other programs change by a few percent only;
        the median of the runs if it is unknown.
        """
        return self.median_ms if self.cpu_ms is None else self.cpu_ms

    @property
    def contention(self) -> str:
        """Why :attr:`own_ms` cannot be trusted, in words;
        empty if it can, or if the tool does not tell.
        """
        # CPU time does not count what other programs take.
        if self.cpu_ms is not None or (self.waited_share or 0.0) <= WAITED_LIMIT:
            return ""
        return f"its threads waited {self.waited_share:.0%} of the time for a processor"


class NotOnUnit(StageError):
    """An accelerator ran no operator of a file:
    its latency there is that of another unit, also at the next try.
    """


class Connection(Protocol):
    """Measures models on one device."""

    @property
    def label(self) -> str:
        """The device in a few words, for messages and logs; it contains no secret."""

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """Measure every model at every thread count.

        Raises:
            UsageError: the connection cannot be made: a program is missing, access is denied, or
                the device's identity has changed. A retry would fail, too.
            StageError: the measurement failed: the device disconnected, its storage is full, it
                took too long, or its response was invalid.
        """


@dataclass(frozen=True)
class Presence:
    """The answer of a device that was asked whether it can measure."""

    #: the settings that lead to the very device that answered, with the tool that measures there
    settings: ConnectionSettings
    #: what latencies depend on there, such as ``Android 15``; empty if it does not tell
    software: str = ""
    missing: str = ""  #: why nothing can be measured there now; empty if it can


@dataclass(frozen=True)
class Way:
    """A way to a device, which a profile names by its key."""

    address: str  # what stands under the key, for the schema of profiles
    check: Callable[[str], None]  # refuses an address that is not valid (UsageError)
    # Connects to a target of a kind, such as ``gpu``.
    connect: Callable[[ConnectionSettings, str], Connection]
    # Asks whether the device is there; raises as a measurement does.
    ask: Callable[[ConnectionSettings], Presence]


def lock_device(label: str) -> FileLock:
    """Return the lock to hold during a measurement on the device with this label.

    Two models that run at once on one device disturb each other's latency.
    A lock file also holds between processes.
    """
    folder = cache_root() / "device-locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.lock")


@dataclass(frozen=True)
class RuntimeFile:
    """A file for another runtime that computes the same as a ``.tflite`` file."""

    path: Path  # the file; the ``.tflite`` file itself for a runtime that runs it
    # Comparison of the two (:meth:`Exporter.write`); empty for the file itself.
    facts: Mapping[str, float]


class Exporter(Protocol):
    """Makes the exports of files in one format."""

    TITLE: str  #: The format for people, such as ``ONNX``
    VERSION: str  #: Raised whenever the same file would get another export
    LIMITS: CallLimits  #: Limits of the child process that makes an export
    FORMS: tuple[str, ...]  #: Forms of files whose exports compute the same

    def versions(self) -> Mapping[str, str]:
        """Return the versions of all packages that an export depends on;
        empty texts for what is not installed.
        """

    def inputs(self, sha256: str) -> dict[str, str]:
        """Return all that the export of the file with this hash depends on;
        UsageError if a package is missing.
        """

    @property
    def write(self) -> Callable[[Path, Path], None]:
        """A function of a module, for child processes:
        it writes the export of a file as ``model.*`` into a folder.

        It ends with :func:`keep_export`, whose comparison has the number of ``inputs``, those with
        the ``same_answers``, and as shares of an output's range the ``largest_difference`` and the
        ``kernels_difference``, which is that between LiteRT's own kernels.
        """


def with_facts(
    timings: Sequence[Timing], exports: Mapping[Path, RuntimeFile]
) -> tuple[Timing, ...]:
    """Return the timings with the comparison of each file with its export among the details."""
    described = []
    for timing in timings:
        facts = exports[timing.model].facts
        if facts:
            timing = replace(timing, details={**timing.details, "onnx_export": dict(facts)})
        described.append(timing)
    return tuple(described)


def needs_export(runtime: str) -> bool:
    """Return whether a runtime does not run a ``.tflite`` file but its export."""
    return runtime in list_registered(EXPORTERS)


def exporter_for(runtime: str) -> Exporter:
    """Return what makes the exports that a runtime needs."""
    exporter: Exporter = load_integration(EXPORTERS, runtime)
    return exporter


def file_for(runtime: str, model: Path) -> RuntimeFile:
    """Return the file that a runtime runs for a ``.tflite`` file.

    UsageError if a package that makes the export is not installed; StageError if the export cannot
    be made, does not run, or computes something else.
    """
    if not needs_export(runtime):
        return RuntimeFile(model, {})
    maker = exporter_for(runtime)

    def make(folder: Path) -> None:
        with Scratch() as scratch, ChildPool(scratch / "log.txt") as pool:
            function = f"{maker.write.__module__}:{maker.write.__name__}"
            pool.call(function, model.resolve(), folder, limits=maker.LIMITS)

    # A refusal is cached like an export: it depends on the same inputs.
    return read_export(
        ArtifactCache().get(f"twin-{maker.VERSION}", maker.inputs(sha256_file(model)), make)
    )


def read_export(folder: Path) -> RuntimeFile:
    """Return the export that :meth:`Exporter.write` left in a folder;
    StageError if it was refused.
    """
    refused = folder / _REFUSED
    if refused.is_file():
        # Of older versions.
        raise StageError(refused.read_text(encoding="utf-8").replace(" twin: ", " export: ", 1))
    (path,) = folder.glob("model.*")
    return RuntimeFile(path, json.loads((folder / _FACTS).read_text(encoding="utf-8")))


def keep_export(made: Mapping[str, float] | str, folder: Path, title: str) -> None:
    """Keep in an export's folder its comparison with the file, or the refusal,
    because a second try would end alike.

    ``title`` is the format of the export, which is the file ``model.*`` in the folder.
    """
    refusal = made if isinstance(made, str) else difference_of(made)
    if refusal:
        (folder / _REFUSED).write_text(f"no {title} export: {refusal}", encoding="utf-8")
    else:
        (folder / _FACTS).write_text(json.dumps(made), encoding="utf-8")


def difference_of(facts: Mapping[str, float]) -> str:
    """Return how an export differs from its file if it computes something else;
    empty if the two agree.
    """
    share = facts["same_answers"] / facts["inputs"]
    difference = facts["largest_difference"]
    most = max(LARGEST_DIFFERENCE, OF_KERNELS * facts["kernels_difference"])
    # Other answers are excused only where the outputs nearly agree: then they are ties.
    if difference <= (most if share >= SAME_ANSWERS else SMALL_DIFFERENCE):
        return ""
    return (
        f"it gives the file's answer on {facts['same_answers']:g} of {facts['inputs']:g} inputs,"
        f" and an output differs by up to {difference:.0%} of its range"
    )
