"""Stages that measure a file: its answers on images, and its latency and memory.

The graph asks for them with the stage that makes a file. For a file of the run folder, the scorer
asks for its answers, and the evaluator (``time_again``) and ``remeasurement.py`` for its timing.
``over_images`` serves all tasks: a task gives the job that writes its answers. A timing holds the
whole machine; one that other work disturbed is not kept.

Names and values of ``inputs`` are keys in the cache, so they stay. Raise ``version`` of a stage if
equal inputs give another result (``docs/extend-stages.md``, "Which version to raise").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from advisor.core import Evaluation, Quantity, TimingFacts, facts_from_json, parse
from advisor.datasets import CAPTURE_VERSION, PHOTOGRAPHS_VERSION, InputSpec
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import Materials, Purpose, list_versions, read_result
from advisor.engine._pipeline.stage import (
    ALONE,
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Source,
    Stage,
    StageName,
    after,
    result_of,
)
from advisor.engine._pipeline.stages import jobs

Answer = tuple[int, float]  # A label and its probability

PROBABILITIES_FILE = "probabilities.npy"
LABELS_FILE = "labels.npy"

# Efforts of a timing: full, or brief if there are hundreds of files. The values are in keys of the
# cache, so they stay.
THOROUGH = "search"
SURVEY = "survey"

SURVEYED_FROM = 300
"""From this number of configurations on, all files are timed briefly first, and only finalists
fully. This halves the time for the whole catalogue of 760 configurations.
"""


def effort_for(configurations: int) -> str:
    """Return the timing effort for each file of a search over this many configurations."""
    return SURVEY if configurations >= SURVEYED_FROM else THOROUGH


@dataclass(frozen=True)
class ThreadTiming:
    """One file at one thread count; the fields are those of an evaluation.

    Median and 90th percentile are in ms, None if this machine is no device of the question; the
    peak private memory is in bytes, None if it is not known. ``contended``: other work disturbed
    the timing.
    """

    latency: Quantity | None = None
    latency_p90: Quantity | None = None
    memory: Quantity | None = None
    contended: bool = False
    timing: TimingFacts | None = None

    def apply_to(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation with these figures, whose names are those of its fields."""
        return replace(evaluation, **vars(self))


Timings = Mapping[int, ThreadTiming]  # Timings of one file by number of CPU threads


def over_images(
    name: StageName,
    job: Callable[..., None],
    file: str,
    scope: Scope,
    spec: InputSpec,
    source: Source,
    role: Role,
    cost_s: float,
    extra_inputs: Callable[[Materials], Inputs] = lambda _: {},
) -> Stage[Path]:
    """Return the stage that runs a file over images by a job that writes its answers into
    ``file``; they depend on ``extra_inputs`` too.

    Raises ValueError if the file has learnt from the images of the hold-out,
    on which it would be judged.
    """
    purpose = source.scope.purpose if isinstance(source, Stage) else scope.purpose
    if purpose == Purpose.ALL and role in (Role.HOLDOUT, Role.CAPTURED):
        raise ValueError("a file that has learnt from the hold-out is not judged on it")

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": result_of(source, results).sha256,
            "pictures": materials.part(role).fingerprint,
            "view": spec.key,
            **extra_inputs(materials),
            **list_versions("ai-edge-litert", "pillow", "numpy"),
        }

    def make_job(materials: Materials, results: Results, folders: Folders) -> Job:
        return partial(
            job,
            result_of(source, results).path,
            materials.part(role).paths,
            spec,
            folders.out / file,
            materials.require_images().classes,
        )

    doing = "scoring" if name is StageName.SCORE else "applying capture conditions to images for"
    return Stage(
        name=name,
        scope=with_detail(scope, role, source),
        version="1",
        doing=doing,
        after=after(source),
        inputs=inputs,
        job=make_job,
        read=lambda folder: folder / file,
        cost_s=cost_s,
        reads=lambda materials: materials.part(role),
    )


def score_stage(
    scope: Scope,
    spec: InputSpec,
    source: Source,
    role: Role,
    cost_s: float,
) -> Stage[Path]:
    """Return the stage that runs a file over images and writes the ``.npy`` of its probabilities,
    float32 (N, C).
    """
    return over_images(
        StageName.SCORE, jobs.score_images, PROBABILITIES_FILE, scope, spec, source, role, cost_s
    )


def capture_stage(
    scope: Scope,
    spec: InputSpec,
    source: Source,
    role: Role,
    cost_s: float,
) -> Stage[Path]:
    """Return the stage that runs a file over images under every capture condition and writes the
    ``.npy`` of its labels, int64 (T, N).
    """

    def capture_inputs(materials: Materials) -> Inputs:
        return {
            "names": [path.name for path in materials.part(role).paths],
            "conditions": CAPTURE_VERSION,
        }

    job = jobs.classify_captures
    return over_images(
        StageName.CAPTURE, job, LABELS_FILE, scope, spec, source, role, cost_s, capture_inputs
    )


def answer_stage(
    scope: Scope, spec: InputSpec, source: Source, cost_s: float
) -> Stage[tuple[Answer, ...]]:
    """Return the stage that runs a file over bundled photographs and writes its top-1 label and
    probability for each.
    """

    def inputs(_materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": result_of(source, results).sha256,
            "photographs": PHOTOGRAPHS_VERSION,
            "view": spec.key,
            **list_versions("ai-edge-litert", "scikit-image"),
        }

    return Stage(
        name=StageName.ANSWERS,
        scope=scope,
        version="2",
        doing="comparing",
        after=after(source),
        inputs=inputs,
        job=lambda materials, results, _: partial(
            jobs.answer_photographs,
            result_of(source, results).path,
            spec,
            materials.question.seed + 1,
        ),
        read=_read_answers,
        cost_s=cost_s,
    )


def _read_answers(folder: Path) -> tuple[Answer, ...]:
    rows = read_result(folder)
    return tuple((int(label), float(probability)) for label, probability in rows)


def timing_stage(scope: Scope, source: Source, effort: str = "") -> Stage[Timings]:
    """Return the stage that times a file at every thread count of the search,
    with no other work running.

    A timing that other work disturbed is not cached. An earlier, longer timing is reused.
    ``effort`` is the name of the timing effort; empty for that of this search.
    """

    def inputs(materials: Materials, results: Results, wanted: str = "") -> Inputs:
        return {
            "artefact": result_of(source, results).sha256,
            "host": materials.host.fingerprint,
            "threads": list(materials.question.thread_counts),
            "effort": wanted or effort or materials.effort,
            **list_versions("ai-edge-litert"),
        }

    return Stage(
        name=StageName.TIMING,
        scope=with_detail(scope, effort, source),
        version="2",
        doing=f"timing {scope.compression} of",
        after=after(source),
        inputs=inputs,
        job=lambda materials, results, _: partial(
            jobs.time_file,
            result_of(source, results).path,
            materials.question.thread_counts,
            effort or materials.effort,
        ),
        read=lambda folder: {
            int(count): _read_timing(row) for count, row in read_result(folder).items()
        },
        cost_s=cost.TIMING_S,
        resources=ALONE,
        keep_if=lambda rows: not any(row["contended"] for row in rows.values()),
        also_kept_as=partial(inputs, wanted=THOROUGH),
    )


def with_detail(scope: Scope, detail: str, source: Source) -> Scope:
    """Return a scope with a detail, and with the hash of a file that no stage made.

    A scope may have several such files, for example in the folder of a run.
    """
    file = "" if isinstance(source, Stage) else source.sha256
    return replace(scope, detail=f"{detail} {file}".strip())


def _read_timing(row: Mapping[str, Any]) -> ThreadTiming:
    """Return one row of what the job :func:`.jobs.time_file` returned."""
    memory = row.get("memory")
    return ThreadTiming(
        latency=parse(Quantity, row["latency"]),
        latency_p90=parse(Quantity, row["latency_p90"]),
        memory=parse(Quantity, memory) if memory else None,
        contended=row["contended"],
        timing=facts_from_json(TimingFacts, row["details"]),
    )
