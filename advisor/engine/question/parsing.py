"""Turn the options that a user wrote into a question and an execution: each value is parsed here, once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from advisor.core import units
from advisor.core.budget import Budget, parse_licences
from advisor.core.errors import UsageError, nearest
from advisor.core.figures import HOST
from advisor.core.latency_distribution import CONFIDENCE
from advisor.core.names import (
    ALL,
    CAPTURES,
    EXECUTORS,
    NEVER,
    OBJECTIVES,
    RAY,
    ROBUST,
    SAMPLERS,
    check_storage,
    require_known,
)
from advisor.core.preference import BALANCED, parse_preference
from advisor.core.tasks import TASKS
from advisor.core.training import CHOOSABLE, HEAD, NONE, in_order
from advisor.devices.profiles.runtimes import canonical
from advisor.engine.question.metrics import costs_of, floors_of, metric_of, validate_metric, with_metric
from advisor.engine.question.options import FREE_ON_RESUME, Options, collect_options, read_file
from advisor.engine.question.promises import parse_promises
from advisor.engine.question.validation import validate_execution, validate_question
from advisor.engine.question.values import Execution, Question, Request
from advisor.isolation.resources import usable_cores

CONFIDENCES = (0.5, 0.99)
"""Least and largest share of ``--confidence``."""

CALIBRATED = "predictions are calibrated up to 99%: write for example --confidence 90%"


def resolve(options: Mapping[str, object], file: Path | None = None) -> Request:
    """Return the validated request. Precedence: ``options``, then the request file, then the defaults.

    Args:
        options: value by name of the option; None is an option that was not given.
        file: YAML with the same names.

    Raises:
        UsageError: an unknown name, a wrong type, a value without a unit or not above zero, a contradiction.
    """
    given = {key: value for key, value in options.items() if value is not None}
    written = with_metric(collect_options({**(read_file(file) if file else {}), **given}))
    request = Request(
        question=_question(written),
        execution=_execution(written),
        folder=Path(written.out),
        written=written.to_dict(),
    )
    validate_question(request.question, written.training)
    validate_metric(request.question, written)
    validate_execution(request.execution)
    return request


def resolve_resumed(
    stored: Mapping[str, object], options: Mapping[str, object], file: Path | None = None, extend: str | None = None
) -> Request:
    """Return the request of a resumed run: its own, with the options that may change.

    The run stays in its folder; ``out`` is ignored.

    Args:
        stored: the run's request.
        options: value by name of the option; None is an option that was not given.
        file: YAML with the same names.
        extend: a new time limit, from now.

    Raises:
        UsageError: an option of the question that differs from the run's own, the run worked on a remote cluster and
            no executor is given, or as :func:`resolve`.
    """
    own = resolve({key: value for key, value in stored.items() if key != "schema_version"})
    given = {key: value for key, value in options.items() if value is not None}
    values = {**(read_file(file) if file else {}), **given, "out": own.written["out"]}
    if extend and units.seconds(extend, "--extend"):
        values["time_limit"] = extend
    cluster = own.written["executor"]
    if own.execution.cluster and "executor" not in values:
        raise UsageError(
            f"the run worked on the cluster '{cluster}', which no folder may choose: its answers can run code here",
            f"name it again: --executor {cluster}, or --executor local",
        )
    wanted = resolve({**own.written, **values})
    for key in [*(key for key in values if key not in FREE_ON_RESUME), "storage"]:
        if wanted.written[key] != own.written[key]:
            _refuse_other(key, own.written[key], wanted.written[key])
    return wanted


def _question(written: Options) -> Question:
    return Question(
        task=require_known("--task", written.task, tuple(TASKS)),
        data=Path(written.data) if written.data else None,
        unknown=Path(written.unknown) if written.unknown else None,
        devices=_devices(written.device),
        profiles=tuple(map(Path, written.profiles)),
        limits=_limits(written),
        metric=metric_of(written),
        costs=costs_of(written.costs) if written.costs else None,
        preference=parse_preference(written.prefer) if written.prefer else BALANCED,
        robust=require_known("--objective", written.objective, OBJECTIVES) == ROBUST,
        candidates=written.candidates,
        trainings=_trainings(written),
        tuning_limited=bool(written.data) and not written.training and len(TASKS[written.task].default) > 1,
        tune_training=written.tune_training,
        compressions=written.compressions,
        promises=parse_promises(written.min_precision, written.min_recall, written.min_coverage),
        thread_counts=tuple(sorted(set(written.threads or (1, usable_cores())))),
        catalog=tuple(map(Path, written.catalog)),
        seed=written.seed,
    )


def _execution(written: Options) -> Execution:
    executor, cluster = _executor(written.executor)
    return Execution(
        sampler=require_known("--sampler", written.sampler, SAMPLERS),
        time_limit_s=units.seconds(written.time_limit, "--time-limit") if written.time_limit else None,
        time_limit=written.time_limit,
        max_trials=written.max_trials,
        stop_below=_stop_below(written.stop_below),
        capture_all=require_known("--capture", written.capture, CAPTURES) == ALL,
        offline=written.offline,
        mirror=written.mirror or None,
        remeasure=written.remeasure,
        storage=check_storage(written.storage),
        executor=executor,
        cluster=cluster,
        workers=written.workers,
        shared_folder=Path(written.shared_folder) if written.shared_folder else None,
    )


def _limits(written: Options) -> Budget:
    min_accuracy, min_metrics = floors_of(written, metric_of(written))
    return Budget(
        latency_ms=units.milliseconds(written.budget, "--budget") if written.budget else None,
        size_bytes=units.size_bytes(written.size_budget, "--size-budget") if written.size_budget else None,
        max_drop_points=units.points(written.max_drop, "--max-drop") if written.max_drop else None,
        min_accuracy=min_accuracy,
        min_metrics=min_metrics,
        memory_bytes=units.size_bytes(written.memory_budget, "--memory-budget") if written.memory_budget else None,
        licence=parse_licences(written.licence),
        must_run_on=tuple(dict.fromkeys(map(canonical, written.must_run_on))),
        confidence=_confidence(written.confidence),
    )


def _confidence(text: str) -> float:
    return units.share(text, "--confidence", CONFIDENCES, CALIBRATED) if text else CONFIDENCE


def _devices(text: str) -> tuple[str, ...]:
    """Return the names in the order given, each once; ``host:litert`` is ``host``."""
    names = (canonical(part.strip()) for part in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name)) or (HOST,)


def _trainings(written: Options) -> tuple[str, ...]:
    """Return the training recipes, the lightest first; fine-tuning starts from a head, so ``head`` is one of them."""
    for name in written.training:
        require_known("--training", name, CHOOSABLE)
    return in_order((HEAD, *(written.training or TASKS[written.task].default))) if written.data else (NONE,)


def _stop_below(text: str) -> float | None:
    if not text:
        return None
    return 0.0 if text == NEVER else units.percent(text, "--stop-below") / 100


def _executor(text: str) -> tuple[str, str]:
    """Return the executor's name and the address of its cluster, which is empty if none is given."""
    name, scheme, address = text.partition("://")
    if name not in EXECUTORS or (scheme and (name != RAY or not address)):
        raise UsageError(
            f"--executor: unknown '{text}'{nearest(name, EXECUTORS)}",
            "one of: local, ray (a cluster of this machine, started where none runs), ray://host:10001",
        )
    return name, address


def _refuse_other(key: str, own: object, wanted: object) -> None:
    shown = [", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in (own, wanted)]
    if key == "costs" and all(shown):
        shown = ["of other content", "this one"]
    option = f"--{key.replace('_', '-')}"
    raise UsageError(
        f"--resume: the run was begun with {f'{option} {shown[0]}' if shown[0] else f'no {option}'}, not {shown[1]}",
        "leave it out to go on with the run's own question; start a new run for another one (finished work is reused), "
        "or decide again under other limits with advisor report",
    )
