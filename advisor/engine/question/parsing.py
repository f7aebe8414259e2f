"""Turn the options that a user wrote into a question and an execution: each value is parsed here, once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from advisor.core import units
from advisor.core.budget import Budget, parse_licences
from advisor.core.errors import UsageError
from advisor.core.evaluation import HOST
from advisor.core.metrics import BALANCED, COST_SAVED, METRICS, TOP1, Costs, parse_costs
from advisor.core.names import ALL, ROBUST, require_known
from advisor.core.options import PLAN, Table, flag
from advisor.core.quantity import CONFIDENCE
from advisor.core.tasks import TASKS
from advisor.core.training import HEAD, NONE, choosable, in_order
from advisor.devices.profiles.runtimes import canonical
from advisor.engine.question.validation import parse_guarantees, validate_execution, validate_question
from advisor.engine.question.values import (
    FREE_ON_RESUME,
    Execution,
    Options,
    Question,
    Request,
    collect_options,
    read_file,
)
from advisor.isolation.resources import usable_cores
from advisor.store.yamlfile import read_text

COSTS_BYTES = 2**20
"""Largest table of costs, which the request keeps."""

FLOORS = "--min-accuracy"


def with_metric(written: Options) -> Options:
    """Return the options with the content of the table of costs in place of its path, and with the metric that it asks.

    So a run keeps its costs, and a resumed run notices other ones.

    Raises:
        UsageError: the table cannot be read or is wrong.
    """
    if not written["costs"]:
        return written
    metric = {"costs": costs_of(written["costs"]).text, "metric": written["metric"] or COST_SAVED}
    return replace(written, values={**written.values, **metric})


def costs_of(text: str) -> Costs:
    """Return the costs of a file, or of its content.

    Args:
        text: path of a CSV file, or CSV with at least two lines.

    Raises:
        UsageError: the file cannot be read, or the table is wrong.
    """
    if "\n" in text:
        return parse_costs(text)
    try:
        return parse_costs(read_text(Path(text), COSTS_BYTES), text)
    except UsageError as error:
        message = error.message
        raise UsageError(message if message.startswith("--costs") else f"--costs: {message}", error.hint) from None


def metric_of(written: Options) -> str:
    """Return the name of the metric that counts.

    Raises:
        UsageError: an unknown name, or a metric of costs without costs.
    """
    if not written["metric"]:
        return TOP1
    name = require_known("--metric", written["metric"], tuple(METRICS))
    _require_costs("--metric", name, written)
    return name


def floors_of(written: Options, metric: str) -> tuple[float | None, tuple[tuple[str, float], ...]]:
    """Return the least accuracy in %, None for none, and the least values of other metrics.

    Args:
        written: with ``85%`` for the metric that counts, ``worst-group=70%`` for another one, or both with commas.
        metric: the one that counts.

    Raises:
        UsageError: an unknown metric, one that is limited twice, or a value that is no share.
    """
    found: dict[str, float] = {}
    asked = ",".join(written["min_accuracy"])
    for part in filter(None, map(str.strip, asked.split(","))):
        named, _, text = part.rpartition("=")
        name = require_known(FLOORS, named.strip(), tuple(METRICS)) if "=" in part else metric
        if name in found:
            raise UsageError(f"{FLOORS}: '{asked}' has two limits of {name}", f"keep one: {FLOORS} {name}=85%")
        _require_costs(FLOORS, name, written)
        found[name] = units.percent(text.strip(), FLOORS)
    return found.pop(metric, None), tuple(sorted(found.items()))


def _require_costs(option: str, name: str, written: Options) -> None:
    if name == COST_SAVED and not written["costs"]:
        raise UsageError(f"{option}: {COST_SAVED} needs the cost of each answer", "add --costs costs.csv")


def validate_metric(question: Question, written: Options) -> None:
    """Refuse a metric, costs or limits of metrics that the question cannot have.

    Raises:
        UsageError: the wrong option, and what to do about it.
    """
    given = {"--costs": written["costs"], "--metric": written["metric"], FLOORS: question.limits.min_metrics}
    named = next((option for option, value in given.items() if value), "")
    if not named:
        return
    if named == FLOORS:
        named = f"{FLOORS} {question.limits.min_metrics[0][0]}=..."
    if not question.of_task.probabilities:
        raise UsageError(
            f"{named}: models for --task {question.task} are judged by {question.of_task.metric}, and only classifiers "
            "by other metrics",
            f"leave {named.partition(' ')[0]} out",
        )
    if question.data is None:
        raise UsageError(
            f"{named}: this metric is measured on images, and --data is not given",
            f"add --data DIR (one sub-folder for each class), or leave {named.partition(' ')[0]} out",
        )
    if question.robust and question.metric != TOP1:
        raise UsageError(
            f"--objective robust-accuracy is top-1 under capture conditions, and {named} asks for {question.metric}",
            "leave --objective out, or add --metric top1; other metrics can be limits: --min-accuracy macro-f1=80%",
        )


def resolve(options: Mapping[str, object], file: Path | None = None, table: Table = PLAN) -> Request:
    """Return the validated request. Precedence: ``options``, then the request file, then the defaults.

    Args:
        options: value by name of the option; None is an option that was not given.
        file: YAML with the same names.
        table: the options that there are.

    Raises:
        UsageError: an unknown name, a wrong type, a value without a unit or not above zero, a contradiction.
    """
    given = {key: value for key, value in options.items() if value is not None}
    written = with_metric(collect_options({**(read_file(file) if file else {}), **given}, table))
    request = Request(
        question=_question(written),
        execution=_execution(written),
        folder=written.parsed("out"),
        written=written.to_dict(),
    )
    validate_question(request.question, written["training"])
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
    return replace(
        Question(**written.fields_of(Question)),
        devices=_devices(written["device"]),
        limits=_limits(written),
        metric=metric_of(written),
        costs=costs_of(written["costs"]) if written["costs"] else None,
        preference=written.parsed("prefer") or BALANCED,
        robust=written.parsed("objective") == ROBUST,
        trainings=_trainings(written),
        tuning_limited=_has_default_tuning(written),
        guarantees=parse_guarantees(written["min_precision"], written["min_recall"], written["min_coverage"]),
        thread_counts=tuple(sorted(set(written["threads"] or (1, usable_cores())))),
    )


def _execution(written: Options) -> Execution:
    executor, cluster = written.parsed("executor")
    return replace(
        Execution(**written.fields_of(Execution)),
        time_limit_s=written.parsed("time_limit"),
        time_limit=written["time_limit"],
        capture_all=written.parsed("capture") == ALL,
        executor=executor,
        cluster=cluster,
    )


def _limits(written: Options) -> Budget:
    min_accuracy, min_metrics = floors_of(written, metric_of(written))
    return Budget(
        latency_ms=written.parsed("budget"),
        size_bytes=written.parsed("size_budget"),
        max_drop_points=written.parsed("max_drop"),
        min_accuracy=min_accuracy,
        min_metrics=min_metrics,
        memory_bytes=written.parsed("memory_budget"),
        licence=parse_licences(written["licence"]),
        must_run_on=tuple(dict.fromkeys(map(canonical, written["must_run_on"]))),
        confidence=written.parsed("confidence") or CONFIDENCE,
    )


def _devices(text: str) -> tuple[str, ...]:
    """Return the names in the order given, each once; ``host:litert`` is ``host``."""
    names = (canonical(part.strip()) for part in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name)) or (HOST,)


def _trainings(written: Options) -> tuple[str, ...]:
    """Return the training recipes, the lightest first; fine-tuning starts from a head, so ``head`` is one of them."""
    for name in written["training"]:
        require_known("--training", name, choosable())
    default = TASKS[written["task"]].default
    return in_order((HEAD, *(written["training"] or default))) if written["data"] else (NONE,)


def _has_default_tuning(written: Options) -> bool:
    return bool(written["data"]) and not written["training"] and len(TASKS[written["task"]].default) > 1


def _refuse_other(key: str, own: object, wanted: object) -> None:
    shown = [", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in (own, wanted)]
    if key == "costs" and all(shown):
        shown = ["of other content", "this one"]
    option = flag(key)
    raise UsageError(
        f"--resume: the run was begun with {f'{option} {shown[0]}' if shown[0] else f'no {option}'}, not {shown[1]}",
        "leave it out to go on with the run's own question; start a new run for another one (finished work is reused), "
        "or decide again under other limits with advisor report",
    )
