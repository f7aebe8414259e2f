"""Stages that run a file on this machine in another runtime than LiteRT, and their jobs.

The graph adds them for the devices of the question that are other runtimes of this machine
(``host:onnxruntime``) or microcontrollers: the export, its latency, its arena. The walker calls
:func:`measure` and :func:`check` by name and by position. A device that is measured over a
connection gives its :class:`RuntimeFigures` by :func:`figures_of`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from advisor.core import (
    Provenance,
    Quantity,
    RemoteFacts,
    StageError,
    facts_from_json,
    parse,
    to_json,
)
from advisor.devices import (
    MeasurementJob,
    RuntimeFile,
    Timing,
    exporter_for,
    local_runtimes,
    lock_device,
    needs_export,
)
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.materials import LocalTarget, Materials, list_versions, read_result
from advisor.engine._pipeline.resources import Pool, Resources
from advisor.engine._pipeline.stage import (
    ALONE,
    Inputs,
    Results,
    Scope,
    Source,
    Stage,
    StageName,
    after,
    result_of,
)
from advisor.engine._pipeline.stages.figures import THOROUGH, ThreadTiming, with_detail
from advisor.engine._pipeline.stages.jobs import timing_facts
from advisor.measurement import MicroCheck, interpreter_of

if TYPE_CHECKING:
    from advisor.devices import DeviceTarget
    from advisor.isolation import SeriesDocument
    from advisor.measurement import LatencyResult


Result = TypeVar("Result")

ARENA_BYTES = 1_200_000_000

PAUSE_S = 0.25  # Seconds before a disturbed timing is repeated

HANGS_AFTER_S = 240.0
"""Seconds after which a runtime is ended:
a series of a search takes seconds, also of the largest card in a browser.
"""


@dataclass(frozen=True)
class RuntimeFigures(ThreadTiming):
    """Figures of a file that a runtime of this machine measured; ``remote`` says how it ran
    there.
    """

    remote: RemoteFacts | None = None


def measure(device: str, target: DeviceTarget, model: Path, effort: str) -> dict[str, Any]:
    """Measure a file in a runtime of this machine;
    no other work may run on the machine at the same time.

    The statistics are those of ``host``. As there, a timing that other work disturbed is repeated
    once, and the less disturbed one counts. ``device`` names the runtime's device, such as
    ``host:onnxruntime``. Return :class:`RuntimeFigures` as JSON. A runtime that is not installed
    is a UsageError; one that does not run the file, a StageError.
    """
    connection = local_runtimes()[device].connect(target)
    job = MeasurementJob((model,), (target.threads,), effort, HANGS_AFTER_S, target.runtime)
    with lock_device(connection.label):
        (timing,) = connection.measure(job)
        result = _judge_timing(timing)
        if result.contended:
            time.sleep(PAUSE_S)
            (second_timing,) = connection.measure(job)
            second_result = _judge_timing(second_timing)
            if second_result.disturbance < result.disturbance:
                timing = second_timing
                result = second_result
    return to_json(_figures_of(timing, result, effort, "this machine"))


def figures_of(timing: Timing, effort: str, label: str) -> RuntimeFigures:
    """Return the figures of a timing that was made elsewhere, on ``label``;
    StageError if its document is damaged.
    """
    return _figures_of(timing, _judge_timing(timing), effort, label)


def _figures_of(timing: Timing, result: LatencyResult, effort: str, label: str) -> RuntimeFigures:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    source = f"{timing.runtime} on {label}, measured on {now[:10]}"
    quantities = result.to_quantities(source)
    return RuntimeFigures(
        latency=quantities["latency"],
        latency_p90=quantities["latency_p90"],
        memory=memory_of(timing, source),
        contended=result.contended,
        timing=timing_facts(result, effort, now),
        remote=remote_facts(timing, label),
    )


def check(runtime: str, model: Path) -> dict[str, Any]:
    """Return what the interpreter of a runtime does with a file, as JSON."""
    interpreter = interpreter_of(runtime)
    assert interpreter is not None, "a stage checks files only for a runtime that has one"
    return to_json(interpreter.check(model))


def memory_of(timing: Timing, source: str) -> Quantity | None:
    """Return the measured memory; None if it was not measured."""
    if timing.memory_bytes is None:
        return None
    return Quantity(float(timing.memory_bytes), "bytes", Provenance.MEASURED, n=1, source=source)


def remote_facts(timing: Timing, label: str) -> RemoteFacts:
    """Return how a file ran over a connection with this label."""
    return facts_from_json(RemoteFacts, {**timing.details, "connection": label})


def _judge_timing(timing: Timing) -> LatencyResult:
    from advisor.measurement import LatencyResult

    try:
        return LatencyResult.of_series(
            cast("SeriesDocument", timing.details), timing.details["load"]
        )
    except (LookupError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise StageError(
            f"invalid timings of {timing.runtime}: {type(error).__name__} {error}"
        ) from error


def export_file(
    scope: Scope, source: Source, runtime: str, memory_bytes: int = cost.EXPORT_BYTES
) -> Stage[RuntimeFile]:
    """Write the file for a runtime that computes the same as a ``.tflite`` file;
    it may take ``memory_bytes``.
    """
    maker = exporter_for(runtime)
    return Stage(
        name=StageName.ONNX,
        scope=with_detail(scope, "", source),
        version=maker.VERSION,
        doing=f"writing {scope.compression} as {maker.TITLE} for",
        after=after(source),
        inputs=lambda _, results: maker.inputs(result_of(source, results).sha256),
        job=lambda _, results, folders: partial(
            maker.write, result_of(source, results).path, folders.out
        ),
        read=RuntimeFile.read_export,
        cost_s=cost.EXPORT_S,
        resources=Resources(Pool.HEAVY, memory_bytes, maker.LIMITS),
    )


def measure_in_runtime(
    scope: Scope,
    source: Source,
    target: LocalTarget,
    effort: str = "",
    export_bytes: int = cost.EXPORT_BYTES,
) -> Stage[RuntimeFigures]:
    """Measure a file in another runtime of this machine, with no other work running.

    As in LiteRT, a measurement that other work disturbed is not cached, and an earlier, longer one
    is reused. ``effort`` names the timing effort; empty for that of the search. ``export_bytes``
    is the expected memory while its export is made.
    """
    runtime = local_runtimes()[target.device]
    target_here = target.target

    def inputs(materials: Materials, results: Results, wanted: str = "") -> Inputs:
        return {
            "artefact": result_of(source, results).sha256,
            "host": materials.host.fingerprint,
            "runtime": [target_here.runtime, target_here.accelerator],
            "threads": target_here.threads,
            "effort": wanted or effort or materials.effort,
            "versions": dict(runtime.versions(target_here)),
        }

    needed: tuple[Stage[Any], ...] = after(source)
    if needs_export(target_here.runtime):
        needed = (*needed, export_file(scope, source, target_here.runtime, export_bytes))
    detail = f"{target.device}:{target_here.name} {effort}".strip()
    return Stage(
        name=StageName.RUNTIME,
        scope=with_detail(scope, detail, source),
        version="1",
        doing=f"measuring {scope.compression} in {runtime.title} of",
        after=needed,
        inputs=inputs,
        job=lambda materials, results, _: partial(
            measure,
            target.device,
            target_here,
            result_of(source, results).path,
            effort or materials.effort,
        ),
        read=_make_reader(RuntimeFigures),
        cost_s=cost.RUNTIME_S,
        resources=ALONE,
        keep_if=lambda row: not row.get("contended", False),
        also_kept_as=partial(inputs, wanted=THOROUGH),
    )


def check_in_interpreter(scope: Scope, source: Source, runtime: str) -> Stage[MicroCheck]:
    """Run a file in the interpreter of a microcontroller's runtime,
    and find the smallest arena with which it runs.
    """
    interpreter = interpreter_of(runtime)
    package = interpreter.PACKAGE if interpreter else runtime

    def inputs(materials: Materials, results: Results) -> Inputs:
        artefact = result_of(source, results).sha256
        return {"artefact": artefact, "host": materials.host.fingerprint, **list_versions(package)}

    return Stage(
        name=StageName.ARENA,
        scope=with_detail(scope, "", source),
        version="1",
        doing=f"running {scope.compression} as on a microcontroller of",
        after=after(source),
        inputs=inputs,
        job=lambda _, results, __: partial(check, runtime, result_of(source, results).path),
        read=_make_reader(MicroCheck),
        cost_s=cost.ARENA_S,
        resources=Resources(memory_bytes=ARENA_BYTES),
    )


def _make_reader(kind: type[Result]) -> Callable[[Path], Result]:
    """Return a function that reads what a job of these stages returned."""
    return lambda folder: cast("Result", parse(kind, read_result(folder)))
