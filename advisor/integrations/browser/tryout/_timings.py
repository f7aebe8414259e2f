"""Timings that a page posts: check every number, and write them as a run.

A page runs on a phone of anybody, so :func:`check_timings` refuses what no processor can do. The
fields of the ``Posted`` classes are the document that ``tryout.js`` posts. ``_app.py`` calls
:meth:`Recorder.record`; it writes a run beside that of the page, with a device of its own name.
"""

from __future__ import annotations

import re
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.core import UsageError, message_of, parse, plural, show_ms
from advisor.devices import WEB_RUNTIME, Timing, timings_of_agent
from advisor.engine import record_timings
from advisor.integrations.browser import LITERT
from advisor.integrations.browser.tryout._trial import EFFORT, LONGEST_MS, MOST_THREADS, RunPage
from advisor.isolation import agent
from advisor.reporting import write_own
from advisor.store import RunFolder, parse_json

MOST_BYTES = 2_000_000
"""Largest document: two hundred thousand runs take about as much."""

MOST_RESULTS = 20
"""Results that one start keeps: each is a run folder."""

MACS_PER_S = 1e12
"""A file that would run at more multiplications a second on one thread is not believed: 32 a
cycle, the most that 128 bits of SIMD hold at 8 bits in two units, are 0.13e12 at 4 GHz.
"""

GPU_MACS_PER_S = 1e14
"""The same of a whole GPU: no shader of 2026 reaches it."""

WEBGPU = "WebGPU"
CPU = "cpu"
GPU = "gpu"

COOL = "let the phone cool down, close other apps"

LEAST_MS = 1e-3
"""A call of the runtime itself takes a microsecond."""

MOST_HEAP_BYTES = 2**32
"""Memory that WebAssembly can address."""

LEAST_SHARE = 0.9
STEP_MS = 2.0
"""A block lasts at least this share of its runs, less two steps of a coarse clock."""

_NAME = re.compile(r"[^\w .()+-]+")
NAME_LENGTH = 40


@dataclass(frozen=True)
class PostedDevice:
    """Facts that a page states of its phone."""

    model: str  #: such as ``Pixel 8``; of some browsers the system alone
    browser: str  #: such as ``Chrome``
    version: str  #: of the browser
    cores: int  #: processors that it may use


@dataclass(frozen=True)
class PostedBlock:
    """One block of runs."""

    times: tuple[float, ...]  #: of each run, in ms
    elapsed_ms: float  #: from the begin of the first to the end of the last


@dataclass(frozen=True)
class PostedSeries:
    """One file at one number of threads."""

    form: int  #: number of the file on the page, from 0
    accelerator: str  #: ``cpu`` for WebAssembly, ``gpu`` for WebGPU
    threads: int  #: threads of the runtime
    runtime_ms: float  #: time to start the runtime
    load_ms: float  #: time to load the file
    first_ms: float  #: time of the first run
    heap_bytes: int | None  #: memory of the runtime and the file
    blocks: tuple[PostedBlock, ...]  #: the timed runs


@dataclass(frozen=True)
class PostedTimings:
    """The document that a page posts."""

    device: PostedDevice  #: the phone
    series: tuple[PostedSeries, ...]  #: each file at each number of threads


@dataclass
class Recorder:
    """Checks timings, and writes each result as a run beside that of the trial."""

    trial: RunPage  #: the files that the page has
    tell: Callable[[str], None]  #: is called with a line about each result
    started: float = field(default_factory=time.monotonic)  #: when the server started
    results: int = 0  #: results so far

    def record(self, body: bytes) -> dict[str, Any]:
        """Write a posted result as a run, and return what the page shows of it.

        Raises UsageError: the document is damaged, or says what cannot be.
        """
        if self.results >= MOST_RESULTS:
            raise UsageError(f"{MOST_RESULTS} results are written", "start advisor try again")
        posted = read_timings(body)
        check_timings(posted, self.trial, time.monotonic() - self.started)
        device = name_device(posted.device)
        measured = []
        steady = []
        hot = []
        for series, timing in zip(posted.series, _timings_of(posted, self.trial), strict=True):
            if timing.throttled:
                hot.append(_describe_hot(series, timing))
                continue
            evaluation = self.trial.forms[series.form].evaluation
            measured.append((evaluation, series.accelerator, timing))
            steady.append(series)
        if not measured:
            raise UsageError(
                f"nothing is kept: {hot[0]['remark']}", f"{COOL}, and time the files again"
            )
        runtime = f"{WEB_RUNTIME}=={LITERT.version}"
        folder, evaluations = record_timings(self.trial.run, device, runtime, measured, EFFORT)
        self.results += 1
        write_own(RunFolder.open(folder.path))
        rows = []
        figures = []
        for series, evaluation in zip(steady, evaluations, strict=True):
            latency = evaluation.latency
            assert latency is not None, "it was measured"
            verdict = evaluation.timing.verdict_reason if evaluation.timing else ""
            value = show_ms(latency.value)
            remark = f"{_name_unit(series)}; {verdict}"
            rows.append({"form": series.form, "value": value, "remark": remark})
            figures.append(f"{evaluation.configuration.compression} {value} ({remark})")
        self.tell(f"{device}: {', '.join(figures)}")
        self.tell(f"advisor report {shlex.quote(str(folder.path))}")
        said = f"Written to the run {folder.path.name}, as measured on {device}."
        return {"times": [*rows, *hot], "said": said}


def read_timings(body: bytes) -> PostedTimings:
    """Return the document of a page; UsageError if it is damaged."""
    try:
        posted: PostedTimings = parse(PostedTimings, parse_json(body.decode()))
    except (ValueError, TypeError, LookupError) as error:
        raise UsageError(
            f"the timings cannot be read: {message_of(error)}", "load the page again"
        ) from None
    return posted


def check_timings(posted: PostedTimings, trial: RunPage, age_s: float) -> None:
    """Refuse timings that cannot be.

    ``age_s`` is how long the server has been there: nothing was timed before.

    Raises:
        UsageError: a figure that no phone measures.
    """
    served = range(len(trial.forms))
    places = [(series.form, series.accelerator, series.threads) for series in posted.series]
    effort = agent.map_efforts()[EFFORT]
    _require(places, "there is no timing")
    _require(len(set(places)) == len(places), "a file was timed twice")
    _require(
        all(series.accelerator in (CPU, GPU) for series in posted.series),
        "a unit that no page times",
    )
    _require(1 <= posted.device.cores <= 1024, f"a device with {posted.device.cores} processors")
    total_ms = 0.0
    for series in posted.series:
        _require(series.form in served, f"there is no file {series.form}")
        most_threads = 1 if series.accelerator == GPU else MOST_THREADS
        _require(1 <= series.threads <= most_threads, f"{series.threads} threads")
        _require(
            len(series.blocks) == effort.blocks, f"{len(series.blocks)} blocks of {effort.blocks}"
        )
        for value in (series.runtime_ms, series.load_ms, series.first_ms):
            _require(0 <= value <= LONGEST_MS, f"a time of {value:g} ms")
        heap = series.heap_bytes
        _require(heap is None or 0 < heap <= MOST_HEAP_BYTES, f"{heap} bytes of memory")
        least_ms = _least_ms(series, trial)
        for block in series.blocks:
            _check_block(block, least_ms)
            total_ms += block.elapsed_ms
    _require(
        total_ms <= 1e3 * age_s,
        f"{total_ms / 1e3:.0f} s of timings from a page that is {age_s:.0f} s old",
    )


def _describe_hot(series: PostedSeries, timing: Timing) -> dict[str, int | str]:
    """Return the row of a file on a phone that slowed down: it has no result."""
    return {
        "form": series.form,
        "value": "no result",
        "remark": f"{_name_unit(series)}; {timing.throttled}; {COOL}",
    }


def _name_unit(series: PostedSeries) -> str:
    return WEBGPU if series.accelerator == GPU else plural(series.threads, "thread")


def _least_ms(series: PostedSeries, trial: RunPage) -> float:
    """Return the shortest time of a run that is believed."""
    facts = trial.forms[series.form].evaluation.file_features
    macs = facts.macs if facts else 0
    macs_per_s = GPU_MACS_PER_S if series.accelerator == GPU else MACS_PER_S * series.threads
    return max(LEAST_MS, 1e3 * macs / macs_per_s)


def _check_block(block: PostedBlock, least_ms: float) -> None:
    _require(block.times, "a block without a run")
    for value in block.times:
        _require(0 <= value <= LONGEST_MS, f"a run of {value:g} ms")
    # A clock in steps of 5 us or 1 ms says 0 of a single short run, and no more of half of them.
    middle_ms = statistics.median(block.times)
    _require(middle_ms > 0, "the clock of this browser is too coarse for so fast a file")
    _require(
        middle_ms >= least_ms,
        f"runs of {middle_ms:g} ms, where no processor needs less than {least_ms:g} ms",
    )
    spent_ms = sum(block.times)
    _require(
        LEAST_SHARE * spent_ms - STEP_MS <= block.elapsed_ms <= LONGEST_MS,
        f"a block of {block.elapsed_ms:g} ms with runs of {spent_ms:g} ms",
    )


def _require(holds: object, what: str) -> None:
    if not holds:
        raise UsageError(
            f"the timings are not believed: {what}",
            "load the page again, and time the files again",
        )


def name_device(device: PostedDevice) -> str:
    """Return the phone and its browser in words, such as ``Chrome on Pixel 8 (browser)``.

    It never is the name of a device with a profile,
    so that no figure counts for the phone's own runtime.
    """
    model = shorten_name(device.model)
    browser = shorten_name(device.browser)
    return f"{browser or 'a browser'} on {model or 'an unknown device'} (browser)"


def shorten_name(text: str) -> str:
    """Return a name from a page as it can stand in files and lines: letters, digits
    and few signs.
    """
    return " ".join(_NAME.sub(" ", text).split())[:NAME_LENGTH].strip()


def _timings_of(posted: PostedTimings, trial: RunPage) -> Sequence[Timing]:
    """Return the timings, read as those of the browser of this machine are."""
    version = shorten_name(posted.device.version)
    elapsed_ms = 0.0
    names = []
    documents = []
    files = []
    for place, series in enumerate(posted.series):
        for block in series.blocks:
            elapsed_ms += block.elapsed_ms
        name = f"{place}"
        names.append(name)
        documents.append(_document_of(name, series))
        files.append(Path(trial.forms[series.form].evaluation.artefact))
    load = {
        "elapsed_ns": round(1e6 * elapsed_ms),
        # A page cannot see what else the phone does.
        "others_cores": None,
        "cores": posted.device.cores,
        "governor": "",
    }
    document = {
        "runtime": LITERT.package,
        "runtime_version": LITERT.version,
        "load": load,
        "series": documents,
    }
    browser = f"{shorten_name(posted.device.browser)} {version}".strip() or "a browser"
    timings = timings_of_agent(document, files, names)
    in_browser = []
    for series, timing in zip(posted.series, timings, strict=True):
        in_browser.append(_with_browser(timing, series, trial, browser))
    return in_browser


def _document_of(name: str, series: PostedSeries) -> Mapping[str, Any]:
    blocks = []
    for block in series.blocks:
        blocks.append(
            {
                "wall_ns": [max(1, round(1e6 * value)) for value in block.times],
                "cpu_ns": None,
                "waited_ns": None,
                "elapsed_ns": round(1e6 * block.elapsed_ms),
            }
        )
    return {
        "model": name,
        "threads": series.threads,
        "runtime_ms": series.runtime_ms,
        "load_ns": round(1e6 * series.load_ms),
        "first_ns": round(1e6 * series.first_ms),
        "heap_bytes": series.heap_bytes,
        "blocks": blocks,
    }


def _with_browser(timing: Timing, series: PostedSeries, trial: RunPage, browser: str) -> Timing:
    unit = ""
    details = timing.details
    if series.accelerator == GPU:
        unit = f" on {WEBGPU}"
        facts = trial.forms[series.form].evaluation.file_features
        operators = sum(facts.operators.values()) if facts else 0
        # The page times a file on WebGPU only if all of its operators run there.
        details = {**details, "delegated": [operators, operators] if operators else None}
    runtime = f"{timing.runtime}{unit} in {browser}"
    return replace(
        timing, runtime=runtime, memory_bytes=timing.details["heap_bytes"], details=details
    )
