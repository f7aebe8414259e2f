"""Stages that measure an artefact: its answers on images, and its latency and memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from advisor.compression.calibration import PHOTOGRAPHS_VERSION
from advisor.core.codec import parse
from advisor.core.evaluation import facts_from_json
from advisor.core.evaluation_facts import TimingFacts
from advisor.core.quantity import Quantity
from advisor.datasets.capture import VERSION as CAPTURE_VERSION
from advisor.datasets.images import InputSpec
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.images import Role
from advisor.engine.pipeline.materials import Materials, read_result, versions
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
from advisor.engine.pipeline.stages import jobs

Answer = tuple[int, float]
"""A label and its probability."""

PROBABILITIES_FILE, LABELS_FILE = "probabilities.npy", "labels.npy"

THOROUGH, SURVEY = "search", "survey"
"""Efforts of a timing: full, or brief if there are hundreds of files."""

SURVEYED_FROM = 300
"""From this number of configurations on, all files are timed briefly first, and only finalists fully. This halves the
time for the whole catalogue of 760 configurations."""


def effort_for(configurations: int) -> str:
    """Return the timing effort for each file of a search over this many configurations."""
    return SURVEY if configurations >= SURVEYED_FROM else THOROUGH


@dataclass(frozen=True)
class ThreadTiming:
    """One file at one thread count; the fields are those of an evaluation.

    Attributes:
        latency: median in ms; None if this machine is no device of the question.
        latency_p90: 90th percentile in ms, or None for the same reason.
        memory: peak private memory in bytes, None if it is not known.
        contended: whether other work disturbed the timing.
        timing: how it was measured.
    """

    latency: Quantity | None = None
    latency_p90: Quantity | None = None
    memory: Quantity | None = None
    contended: bool = False
    timing: TimingFacts | None = None


Timings = Mapping[int, ThreadTiming]
"""Timings of one file by number of CPU threads."""


def score(scope: Scope, spec: InputSpec, source: Source, role: Role, cost_s: float) -> Stage[Path]:
    """Run a file over images and write the ``.npy`` of its probabilities, float32 (N, C).

    Args:
        scope: card, training, compression and purpose of the file.
        spec: how images become the file's input.
        source: the file.
        role: of the images.
        cost_s: rough seconds.
    """

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": artefact_of(source, results).sha256,
            "pictures": materials.part(role).fingerprint,
            "view": spec.key,
            **versions("ai-edge-litert", "pillow", "numpy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        path, images = artefact_of(source, results).path, materials.part(role).paths
        classes = materials.require_images().classes
        return partial(jobs.score, path, images, spec, folders.out / PROBABILITIES_FILE, classes)

    return Stage(
        StageName.SCORE, with_detail(scope, role, source), "1", "scoring", after(source), inputs, job,
        _file(PROBABILITIES_FILE), cost_s, reads=lambda materials: materials.part(role),
    )  # fmt: skip


def capture(scope: Scope, spec: InputSpec, source: Source, role: Role, cost_s: float) -> Stage[Path]:
    """Run a file over images under every capture condition and write the ``.npy`` of its labels, int64 (T, N)."""

    def inputs(materials: Materials, results: Results) -> Inputs:
        part = materials.part(role)
        return {
            "artefact": artefact_of(source, results).sha256,
            "pictures": part.fingerprint,
            "view": spec.key,
            "names": [path.name for path in part.paths],
            "conditions": CAPTURE_VERSION,
            **versions("ai-edge-litert", "pillow", "numpy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        path, images = artefact_of(source, results).path, materials.part(role).paths
        classes = materials.require_images().classes
        return partial(jobs.captured, path, images, spec, folders.out / LABELS_FILE, classes)

    return Stage(
        StageName.CAPTURE, with_detail(scope, role, source), "1", "applying capture conditions to images for",
        after(source), inputs, job, _file(LABELS_FILE), cost_s, reads=lambda materials: materials.part(role),
    )  # fmt: skip


def answers(scope: Scope, spec: InputSpec, source: Source, cost_s: float) -> Stage[tuple[Answer, ...]]:
    """Run a file over bundled photographs and write its top-1 label and probability for each."""

    def inputs(_materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": artefact_of(source, results).sha256,
            "photographs": PHOTOGRAPHS_VERSION,
            "view": spec.key,
            **versions("ai-edge-litert", "scikit-image"),
        }

    def job(materials: Materials, results: Results, _folders: Folders) -> Job:
        return partial(jobs.answers, artefact_of(source, results).path, spec, materials.question.seed + 1)

    return Stage(
        StageName.ANSWERS, scope, "2", "comparing", after(source), inputs, job, _read_answers,
        cost_s,
    )  # fmt: skip


def timing(scope: Scope, source: Source, effort: str = "") -> Stage[Timings]:
    """Time a file at every thread count of the search, with no other work running.

    A timing that other work disturbed is not cached. An earlier, longer timing is reused.

    Args:
        scope: card, training and compression of the file.
        source: the file.
        effort: name of the timing effort; empty for that of the search.
    """

    def inputs_for(wanted: str, materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": artefact_of(source, results).sha256,
            "host": materials.host.fingerprint,
            "threads": list(materials.question.thread_counts),
            "effort": wanted,
            **versions("ai-edge-litert"),
        }

    def inputs(materials: Materials, results: Results) -> Inputs:
        return inputs_for(effort or materials.effort, materials, results)

    def thorough(materials: Materials, results: Results) -> Inputs:
        return inputs_for(THOROUGH, materials, results)

    def job(materials: Materials, results: Results, _folders: Folders) -> Job:
        path = artefact_of(source, results).path
        return partial(jobs.time_file, path, materials.question.thread_counts, effort or materials.effort)

    return Stage(
        StageName.TIMING, with_detail(scope, effort, source), "2", f"timing {scope.compression} of",
        after(source), inputs, job, _read_timings, cost.TIMING_S, Resources(Pool.DEVICE),
        keep_if=_undisturbed, also_kept_as=thorough,
    )  # fmt: skip


def _undisturbed(rows: Mapping[str, Mapping[str, Any]]) -> bool:
    return not any(row["contended"] for row in rows.values())


def with_detail(scope: Scope, detail: str, source: Source) -> Scope:
    """Return a scope that also names the file: one scope may have several files, such as that of an earlier run."""
    file = "" if isinstance(source, Stage) else source.sha256
    return replace(scope, detail=f"{detail} {file}".strip())


def _file(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / name


def _read_answers(folder: Path) -> tuple[Answer, ...]:
    return tuple((int(label), float(probability)) for label, probability in read_result(folder))


def _read_timings(folder: Path) -> Timings:
    return {int(threads): _timing(row) for threads, row in read_result(folder).items()}


def _timing(row: Mapping[str, Any]) -> ThreadTiming:
    memory = row.get("memory")
    return ThreadTiming(
        latency=parse(Quantity, row["latency"]),
        latency_p90=parse(Quantity, row["latency_p90"]),
        memory=parse(Quantity, memory) if memory else None,
        contended=row["contended"],
        timing=facts_from_json(TimingFacts, row["details"]),
    )
