"""Run jobs in a device cloud: leave to send, jobs that run at once, a time limit, and the timings.

The search measures by :class:`CloudConnection` as on any other device. It needs a
:class:`CloudClient`, which ``_aihub.py`` and ``_devicefarm.py`` implement. Nothing is sent without
leave (``require_leave``), and no message contains a token.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import product
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Protocol

from advisor.core import StageError, UsageError, plural, show_seconds
from advisor.devices import MeasurementJob, NotOnUnit, Timing, needs_export
from advisor.integrations.clouds._answers import Answers, compare_answers, find_images, run_here
from advisor.store import sha256_file

if TYPE_CHECKING:
    from advisor.devices import ConnectionSettings

POLL_S = 5.0
"""Seconds between two questions for the state of a job."""

AT_ONCE = 8
"""Jobs that one command has in a cloud at the same time."""

UNITS: Mapping[str, str] = {"cpu": "CPU", "gpu": "GPU", "npu": "NPU"}
"""Units of a device that files can be sent to, by the name of the accelerator."""


@dataclass(frozen=True)
class Order:
    """A file to run on a device."""

    file: Path  # the ``.tflite`` file, sent as it is
    device: str  # name of the device in its cloud
    unit: str  # a key of :data:`UNITS`
    threads: int  # CPU threads
    inputs: Sequence[Any] = ()  # arrays for the only input of the file; empty for random ones
    input_name: str = ""  # name of that input


@dataclass(frozen=True)
class RunFigures:
    """The latency of the runs of a file, in ms."""

    median: float
    first: float  # the first run
    count: int  # timed runs
    p90: float | None  # 90th percentile, None if the cloud does not tell

    @classmethod
    def of(cls, runs_ms: Sequence[float]) -> RunFigures:
        """Return the figures of all timed runs, the first one too; StageError if
        there are none.
        """
        if not runs_ms:
            raise StageError("invalid response from the cloud: no runs")
        steady = sorted(runs_ms)
        p90 = statistics.quantiles(steady, n=10)[-1] if len(steady) > 1 else steady[0]
        return cls(statistics.median(steady), runs_ms[0], len(steady), p90)


@dataclass(frozen=True)
class Outcome:
    """The results of an order."""

    runs: RunFigures  # how long the timed runs took
    load_ms: float  # time to load the file
    memory_bytes: int | None  # memory that the file added, None if the cloud does not tell
    #: operators in run order, each with ``kind``, ``name``,
    #: ``unit`` (a key of :data:`UNITS`) and ``mean_ms`` or None
    operators: Sequence[Mapping[str, Any]]
    outputs: Sequence[Sequence[Any]] = ()  # the outputs for each input of the order
    #: operators that the asked unit ran, and all, where a cloud tells no unit of each operator;
    #: None to count these
    placed: tuple[int, int] | None = None


class CloudClient(Protocol):
    """A cloud's own client. Several threads call it.

    Every method raises a UsageError where a package or a token is missing or refused, and a
    StageError where the cloud does not answer or a job failed. No message contains a token.
    """

    def list_devices(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the chip of each device that runs ``.tflite`` files,
        by the name of the device.
        """

    def submit(self, order: Order) -> str:
        """Send a file, and its inputs if there are any, and return the name of the job."""

    def ask_state(self, job: str) -> str:
        """Return in words what a job waits for or does; empty if it is done."""

    def fetch(self, job: str) -> Outcome:
        """Return what came back of a job that is done."""


@dataclass(frozen=True)
class Cloud:
    """A device cloud; see :class:`advisor.devices._connections.clouds.DeviceCloud`."""

    title: str
    make_client: Callable[[], CloudClient]

    def list_devices(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the chip of each device, by the name of the device."""
        return self.make_client().list_devices()

    def connect(self, settings: ConnectionSettings, accelerator: str) -> CloudConnection:
        """Return what sends files to a device; UsageError for an accelerator that no cloud has."""
        if accelerator not in UNITS:
            raise UsageError(
                f"{self.title} has no '{accelerator}'", f"it runs files on: {', '.join(UNITS)}"
            )
        return CloudConnection(self, settings, accelerator)


@dataclass(frozen=True)
class SentJob:
    """A job that was sent, and when nobody waits for it any more."""

    name: str
    ends_at: float  # by the monotonic clock; a second question does not begin to wait anew


@dataclass
class CloudConnection:
    """Measures files on one device of a cloud, all files of a job at once."""

    cloud: Cloud
    settings: ConnectionSettings
    unit: str
    #: by hash of the file and threads: what was sent once is not sent again after an error
    jobs: dict[tuple[str, int], SentJob] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    #: is called with a line where a job waits for a device, or does something else than before
    tell: Callable[[str], None] = lambda _text: None

    @property
    def label(self) -> str:
        """The way and the name of the device."""
        return f"{self.settings.way} {self.settings.address}"

    @cached_property
    def client(self) -> CloudClient:
        """The client of the cloud, made when it is needed."""
        return self.cloud.make_client()

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`.

        Raises:
            UsageError: there is no leave to send, or the target is no ``.tflite`` target. Nothing
                is sent then.
        """
        job.check()
        if needs_export(job.runtime):
            raise UsageError(
                f"{self.cloud.title} runs .tflite files, not {job.runtime}",
                "name a target with tflite",
            )
        self.settings.require_leave(job.models, len(job.threads))
        # Before anything is sent: a folder without images, or a file that does not run here,
        # costs no job.
        answers = self._answer_here(job.models)
        orders = list(product(job.models, job.threads))
        if len(orders) == 1:
            return (self._run(*orders[0], answers, Event()),)
        stopped = Event()
        pool = ThreadPoolExecutor(min(AT_ONCE, len(orders)))
        try:
            running = []
            for model, threads in orders:
                running.append(pool.submit(self._run, model, threads, answers, stopped))
            return tuple(future.result() for future in running)
        finally:
            # After an interrupt or an error nobody reads the other jobs, which may wait for hours.
            stopped.set()
            pool.shutdown(cancel_futures=True)

    def _answer_here(self, models: Sequence[Path]) -> Mapping[Path, Answers]:
        """Return what each file answers on this machine to the images that may be sent."""
        folder = self.settings.upload.images
        if folder is None:
            return {}
        images = find_images(folder)
        return {model: run_here(model, images) for model in models}

    def _run(
        self,
        model: Path,
        threads: int,
        answers: Mapping[Path, Answers],
        stopped: Event,
    ) -> Timing:
        """Send a file unless it was sent, wait for its job, and return its timing."""
        ends_at = time.monotonic() + self.settings.upload.limit_s
        answers_here = answers.get(model)
        order = Order(model, self.settings.address, self.unit, threads)
        if answers_here is not None:
            order = replace(order, inputs=answers_here.inputs, input_name=answers_here.input_name)
        # By the content: a file of the same name may be another one after an error.
        key = sha256_file(model), threads
        sent = self.jobs.get(key)
        if sent is None:
            sent = SentJob(self.client.submit(order), ends_at)
            with self.lock:
                self.jobs[key] = sent
        self._wait(sent, stopped)
        outcome = self.client.fetch(sent.name)
        remarks = [f"job {sent.name} of {datetime.now(UTC):%Y-%m-%d}"]
        if answers_here is not None:
            remarks.append(compare_answers(answers_here.outputs, outcome.outputs))
        return self._make_timing(order, outcome, tuple(remarks))

    def _wait(self, job: SentJob, stopped: Event) -> None:
        """Wait until a job is done; StageError after the limit of the settings."""
        limit = show_seconds(self.settings.upload.limit_s)
        last_state = ""
        state = self.client.ask_state(job.name)
        while state:
            left_s = job.ends_at - time.monotonic()
            if left_s <= 0:
                raise StageError(
                    f"{self.label}: the job {job.name} is not done after {limit}, its state is"
                    f" '{state}'",
                    "it goes on in the cloud, and another try sends the file again: give that more"
                    " time with --cloud-limit",
                )
            if state != last_state:
                self.tell(
                    f"{self.label}: the job {job.name} is in state '{state}'; waiting at most"
                    f" {limit} for it"
                )
                last_state = state
            if stopped.wait(min(POLL_S, left_s)):
                raise StageError(f"{self.label}: nobody waits for the job {job.name} any more")
            state = self.client.ask_state(job.name)

    def _make_timing(self, order: Order, outcome: Outcome, remarks: tuple[str, ...]) -> Timing:
        """Return the timing; StageError if it is none, or if the unit ran no operator."""
        taken, total = outcome.placed or _count_placed(order.unit, outcome.operators)
        if order.unit != "cpu" and total and not taken:
            raise NotOnUnit(
                f"{order.file.name} did not run on the {UNITS[order.unit]}, which took none of its"
                f" {plural(total, 'operator')}",
                "its latency there is that of another unit",
            )
        runs = outcome.runs
        details: dict[str, Any] = {} if runs.p90 is None else {"p90_ms": runs.p90}
        details["delegated"] = (taken, total) if order.unit != "cpu" else None
        details["operators"] = tuple(outcome.operators)
        try:
            return Timing(
                model=order.file,
                threads=order.threads,
                median_ms=runs.median,
                runs=runs.count,
                first_ms=runs.first,
                load_ms=outcome.load_ms,
                runtime="tflite",
                memory_bytes=outcome.memory_bytes,
                details=details,
                placement=_describe_placement(order.unit, outcome),
                remarks=remarks,
            )
        except ValueError as problem:
            raise StageError(
                f"{self.label}: invalid response from the cloud: {problem}"
            ) from problem


def _count_placed(unit: str, operators: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many operators a unit ran, and all."""
    return sum(operator["unit"] == unit for operator in operators), len(operators)


def _describe_placement(unit: str, outcome: Outcome) -> str:
    """Return in words how many operators each unit ran, the asked one first.

    Empty if the CPU ran all.
    """
    taken, total = outcome.placed or _count_placed(unit, outcome.operators)
    if not total:
        if unit == "cpu":
            return ""
        return f"the cloud does not tell how many operators ran on the {UNITS[unit]}"
    counts = Counter(operator["unit"] for operator in outcome.operators)
    if unit == "cpu" and (outcome.placed or counts["cpu"] == total):
        return ""
    asked = f"{taken} of {plural(total, 'operator')} ran on the {UNITS[unit]}"
    if outcome.placed:
        return asked
    others = []
    for name in UNITS:
        if name != unit and counts[name]:
            others.append(f"{counts[name]} on the {UNITS[name]}")
    return ", ".join((asked, *others))
