"""Stages that run a file on this machine in another runtime than LiteRT: its export, its latency, its arena."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from advisor.core.codec import parse
from advisor.devices.connections.protocol import RuntimeFile, exporter_for, needs_export, read_export
from advisor.devices.profiles.runtimes import local_runtimes
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.materials import LocalTarget, Materials, read_result, versions
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import (
    Folders,
    Inputs,
    Job,
    Pool,
    Resources,
    Results,
    Scope,
    Source,
    Stage,
    after,
    artefact_of,
)
from advisor.engine.pipeline.stages import other_runtimes_jobs as jobs
from advisor.engine.pipeline.stages.figures import THOROUGH, with_detail
from advisor.engine.pipeline.stages.other_runtimes_jobs import RuntimeFigures
from advisor.measurement.microcontrollers import MicroCheck, interpreter_of

ARENA_BYTES = 1_200_000_000


def exported(scope: Scope, source: Source, runtime: str, memory_bytes: int = cost.EXPORT_BYTES) -> Stage[RuntimeFile]:
    """Write the file for a runtime that computes the same as a ``.tflite`` file; it may take ``memory_bytes``."""
    maker = exporter_for(runtime)

    def inputs(_materials: Materials, results: Results) -> Inputs:
        return maker.inputs(artefact_of(source, results).sha256)

    def job(_materials: Materials, results: Results, folders: Folders) -> Job:
        return partial(maker.write, artefact_of(source, results).path, folders.out)

    return Stage(
        StageName.ONNX, with_detail(scope, "", source), maker.VERSION,
        f"writing {scope.compression} as {maker.TITLE} for",
        after(source), inputs, job, read_export, cost.EXPORT_S, Resources(Pool.HEAVY, memory_bytes, maker.LIMITS),
    )  # fmt: skip


def measured_in(
    scope: Scope, source: Source, target: LocalTarget, effort: str = "", export_bytes: int = cost.EXPORT_BYTES
) -> Stage[RuntimeFigures]:
    """Measure a file in another runtime of this machine, with no other work running.

    As in LiteRT, a measurement that other work disturbed is not cached, and an earlier, longer one is reused.

    Args:
        scope: card, training and compression of the file.
        source: the file.
        target: the runtime, its accelerator and its number of threads.
        effort: name of the timing effort; empty for that of the search.
        export_bytes: expected memory while its export is made.
    """
    runtime = local_runtimes()[target.device]

    def inputs_for(wanted: str, materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": artefact_of(source, results).sha256,
            "host": materials.host.fingerprint,
            "runtime": [target.target.runtime, target.target.accelerator],
            "threads": target.target.threads,
            "effort": wanted,
            "versions": dict(runtime.versions(target.target)),
        }

    def inputs(materials: Materials, results: Results) -> Inputs:
        return inputs_for(effort or materials.effort, materials, results)

    def thorough(materials: Materials, results: Results) -> Inputs:
        return inputs_for(THOROUGH, materials, results)

    def job(materials: Materials, results: Results, _folders: Folders) -> Job:
        path = artefact_of(source, results).path
        return partial(jobs.measure, target.device, target.target, path, effort or materials.effort)

    needed: tuple[Stage[Any], ...] = after(source)
    if needs_export(target.target.runtime):
        needed = (*needed, exported(scope, source, target.target.runtime, export_bytes))
    detail = f"{target.device}:{target.target.name} {effort}".strip()
    return Stage(
        StageName.RUNTIME, with_detail(scope, detail, source), "1",
        f"measuring {scope.compression} in {runtime.title} of", needed, inputs, job, _read_figures,
        cost.RUNTIME_S, Resources(Pool.DEVICE), keep_if=_undisturbed, also_kept_as=thorough,
    )  # fmt: skip


def checked_in(scope: Scope, source: Source, runtime: str) -> Stage[MicroCheck]:
    """Run a file in the interpreter of a microcontroller's runtime, and find the smallest arena with which it runs."""
    interpreter = interpreter_of(runtime)
    package = interpreter.PACKAGE if interpreter else runtime

    def inputs(materials: Materials, results: Results) -> Inputs:
        artefact = artefact_of(source, results).sha256
        return {"artefact": artefact, "host": materials.host.fingerprint, **versions(package)}

    def job(_materials: Materials, results: Results, _folders: Folders) -> Job:
        return partial(jobs.check, runtime, artefact_of(source, results).path)

    return Stage(
        StageName.ARENA, with_detail(scope, "", source), "1", f"running {scope.compression} as on a microcontroller of",
        after(source), inputs, job, _read_check, cost.ARENA_S, Resources(memory_bytes=ARENA_BYTES),
    )  # fmt: skip


def _undisturbed(row: Mapping[str, Any]) -> bool:
    return not row.get("contended", False)


def _read_figures(folder: Path) -> RuntimeFigures:
    found: RuntimeFigures = parse(RuntimeFigures, read_result(folder))
    return found


def _read_check(folder: Path) -> MicroCheck:
    found: MicroCheck = parse(MicroCheck, read_result(folder))
    return found
