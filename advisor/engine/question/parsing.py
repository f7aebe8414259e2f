"""Turn the options that a user wrote into a question, an execution and an output: each value is parsed here, once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from advisor.core import units
from advisor.core.budget import Budget
from advisor.core.errors import UsageError, nearest
from advisor.core.figures import HOST
from advisor.core.latency_distribution import CONFIDENCE
from advisor.core.licences import parse_licences
from advisor.core.preference import BALANCED, parse_preference
from advisor.core.training import CHOOSABLE, HEAD, NONE, in_order
from advisor.engine.question.names import EXECUTORS, NEVER, OBJECTIVES, RAY, ROBUST, SAMPLERS, TASKS, require_known
from advisor.engine.question.options import (
    ExecutionOptions,
    OutputOptions,
    QuestionOptions,
    collect_options,
    read_file,
)
from advisor.engine.question.storage_address import check_storage
from advisor.engine.question.validation import validate_execution, validate_question
from advisor.engine.question.values import Execution, Output, Question, Request
from advisor.isolation.resources import usable_cores

LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.99


def resolve(options: Mapping[str, object], file: Path | None = None) -> Request:
    """Return the validated request. Precedence: ``options``, then the request file, then the defaults.

    Args:
        options: value by name of the option; None is an option that was not given.
        file: YAML with the same names.

    Raises:
        UsageError: an unknown name, a wrong type, a value without a unit or not above zero, a contradiction.
    """
    given = {key: value for key, value in options.items() if value is not None}
    written = collect_options({**(read_file(file) if file else {}), **given})
    request = Request(
        question=_question(written.question),
        execution=_execution(written.execution),
        output=_output(written.output),
        written=written.to_dict(),
    )
    validate_question(request.question, written.question.training)
    validate_execution(request.execution)
    return request


def _question(written: QuestionOptions) -> Question:
    return Question(
        task=require_known("--task", written.task, TASKS),
        data=Path(written.data) if written.data else None,
        devices=_devices(written.device),
        profiles=tuple(map(Path, written.profiles)),
        limits=_limits(written),
        preference=parse_preference(written.prefer) if written.prefer else BALANCED,
        robust=require_known("--objective", written.objective, OBJECTIVES) == ROBUST,
        candidates=written.candidates,
        trainings=_trainings(written),
        tune_training=written.tune_training,
        compressions=written.compressions,
        thread_counts=tuple(sorted(set(written.threads or (1, usable_cores())))),
        catalog=tuple(map(Path, written.catalog)),
        seed=written.seed,
    )


def _execution(written: ExecutionOptions) -> Execution:
    executor, cluster = _executor(written.executor)
    return Execution(
        sampler=require_known("--sampler", written.sampler, SAMPLERS),
        time_limit_s=units.seconds(written.time_limit, "--time-limit") if written.time_limit else None,
        time_limit=written.time_limit,
        max_trials=written.max_trials,
        stop_below=_stop_below(written.stop_below),
        offline=written.offline,
        mirror=written.mirror or None,
        remeasure=written.remeasure,
        storage=check_storage(written.storage),
        executor=executor,
        cluster=cluster,
        workers=written.workers,
        shared_folder=Path(written.shared_folder) if written.shared_folder else None,
    )


def _output(written: OutputOptions) -> Output:
    return Output(Path(written.out))


def _limits(written: QuestionOptions) -> Budget:
    return Budget(
        latency_ms=units.milliseconds(written.budget, "--budget") if written.budget else None,
        size_bytes=units.size_bytes(written.size_budget, "--size-budget") if written.size_budget else None,
        max_drop_points=units.points(written.max_drop, "--max-drop") if written.max_drop else None,
        min_accuracy=units.percent(written.min_accuracy, "--min-accuracy") if written.min_accuracy else None,
        memory_bytes=units.size_bytes(written.memory_budget, "--memory-budget") if written.memory_budget else None,
        licence=parse_licences(written.licence),
        must_run_on=written.must_run_on,
        confidence=_confidence(written.confidence),
    )


def _confidence(text: str) -> float:
    if not text:
        return CONFIDENCE
    share = units.percent(text, "--confidence") / 100
    if not LEAST_CONFIDENCE <= share <= MOST_CONFIDENCE:
        raise UsageError(
            f"--confidence: '{text}' is not between 50% and 99%",
            "predictions are calibrated up to 99%: write for example --confidence 90%",
        )
    return share


def _devices(text: str) -> tuple[str, ...]:
    """Return the names in the order given, each once."""
    names = (part.strip() for part in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name)) or (HOST,)


def _trainings(written: QuestionOptions) -> tuple[str, ...]:
    """Return the training recipes, the lightest first; fine-tuning starts from a head, so ``head`` is one of them."""
    for name in written.training:
        require_known("--training", name, CHOOSABLE)
    return in_order((HEAD, *written.training)) if written.data else (NONE,)


def _stop_below(text: str) -> float | None:
    if not text:
        return None
    return 0.0 if text == NEVER else units.percent(text, "--stop-below") / 100


def _executor(text: str) -> tuple[str, str]:
    """Return the executor's name and the address of its cluster, which is empty where none is given."""
    name, scheme, address = text.partition("://")
    if name not in EXECUTORS or (scheme and (name != RAY or not address)):
        raise UsageError(
            f"--executor: unknown '{text}'{nearest(name, EXECUTORS)}",
            "one of: local, ray (a cluster of this machine, started where none runs), ray://host:10001",
        )
    return name, address
