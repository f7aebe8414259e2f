"""Turn the options that a user wrote into a question and an execution:
parsed and validated here, once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from advisor.core import (
    BALANCED,
    CONFIDENCE,
    EACH_NETWORK,
    EFFORTS,
    HEAD,
    HOST,
    LOCAL,
    METRICS,
    NO_TRAINING,
    PLAN,
    ROBUST,
    TASKS,
    Costs,
    Limits,
    Metric,
    Sampler,
    ShipOn,
    Table,
    UsageError,
    list_choosable,
    nearest,
    recipe_of,
    require_known,
    show_flag,
    sort_trainings,
    units,
)
from advisor.devices import ConnectionSettings, canonical, find_shipped_fleets
from advisor.engine._question.values import (
    FREE_ON_RESUME,
    PRECISION,
    QUESTION_OPTIONS,
    RECALL,
    Execution,
    Options,
    Question,
    Request,
    collect_options,
    parse_guarantees,
    read_file,
    require_classes,
)
from advisor.isolation import usable_cores
from advisor.store import read_text

__all__ = [
    "FREE_ON_RESUME",
    "QUESTION_OPTIONS",
    "Execution",
    "Question",
    "Request",
    "parse_guarantees",
    "require_classes",
    "resolve",
    "resolve_resumed",
]

COSTS_BYTES = 2**20
"""Largest table of costs, which the request keeps."""

FLEET_BYTES = 2**20
"""Largest table of a fleet, which the request keeps."""

FLOORS = "--min-accuracy"
DROPS = "--max-drop"

Refusals = Iterator[tuple[str, str]]
"""What is wrong, and what to do about it; the first one is raised."""

MetricLimits = tuple[tuple[str, float], ...]
"""Limits of metrics by their names."""


def resolve(
    options: Mapping[str, object], file: Path | None = None, table: Table = PLAN
) -> Request:
    """Return the validated request. Precedence:
    ``options``, then the request file, then the defaults.

    Args:
        options: value by name of the option; None is an option that was not given.
        file: YAML with the same names.
        table: the options that there are.
    """
    given = {key: value for key, value in options.items() if value is not None}
    written = collect_options({**(_read_request(file) if file else {}), **given}, table)
    # Its content is kept, not its path: a resumed run notices other costs.
    if written["costs"]:
        costs = {
            "costs": _costs_text(written["costs"]),
            "metric": written["metric"] or Metric.COST_SAVED,
        }
        written = replace(written, values={**written.values, **costs})
    if written["fleet"]:  # its content, too
        written = replace(
            written, values={**written.values, "fleet": _fleet_text(written["fleet"])}
        )
    # Leave to send files is never stored: each command needs the user's word.
    stored = {**written.to_dict(), "upload": False}
    request = Request(_question(written), _execution(written), written.parsed("out"), stored)
    for refusals in (
        _contradictions(request.question, written["training"]),
        _refuse_metrics(request.question, written),
        _refuse_execution(request.execution),
        _refuse_cloud(request),
        _refuse_ship_on(request),
    ):
        for message, hint in refusals:
            raise UsageError(message, hint)
    return request


def _read_request(file: Path) -> Mapping[str, object]:
    """Return the options of a request file;
    refuse one that allows to send files, because files are passed on.
    """
    values = read_file(file)
    if values.get("upload"):
        raise UsageError(
            f"--request: '{file}' may not allow to send files",
            "remove 'upload', and type --upload",
        )
    return values


def resolve_resumed(
    stored: Mapping[str, object],
    options: Mapping[str, object],
    file: Path | None = None,
    extend: str | None = None,
) -> Request:
    """Return the request of a resumed run: its own (``stored``), with the options that may change;
    ``out`` is ignored.

    ``extend`` is a new time limit, from now. Refuse an option of the question that differs from
    the run's own, and a run on a remote cluster that is not named again.
    """
    previous = resolve({key: value for key, value in stored.items() if key != "schema_version"})
    given = {key: value for key, value in options.items() if value is not None}
    changes = {**(_read_request(file) if file else {}), **given, "out": previous.written["out"]}
    if extend and units.parse_seconds(extend, "--extend"):
        changes["time_limit"] = extend
    cluster = previous.written["executor"]
    # A run folder may come from somebody else, and a cluster executes what it is sent.
    if previous.execution.cluster and "executor" not in changes:
        raise UsageError(
            f"the run worked on the cluster '{cluster}', which no folder may choose: its answers"
            " can run code here",
            f"name it again: --executor {cluster}, or --executor local",
        )
    wanted = resolve({**previous.written, **changes})
    # `storage` may get its password again, so it is free, but it must lead to the same study.
    for key in [*(key for key in changes if key not in FREE_ON_RESUME), "storage"]:
        values = previous.written[key], wanted.written[key]
        if values[0] != values[1] and not _is_same_value(key, previous.written, wanted.written):
            then, now = (
                ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                for value in values
            )
            if key in ("costs", "fleet") and then and now:
                then = "of other content"
                now = "this one"
            begun = f"{show_flag(key)} {then}" if then else f"no {show_flag(key)}"
            raise UsageError(
                f"--resume: the run was begun with {begun}, not {now}",
                "leave it out to go on with the run's own question; start a new run for another"
                " one (finished work is reused), or decide again under other limits with advisor"
                " report",
            )
    return wanted


def _is_same_value(key: str, previous: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    """Return whether two texts of an option are one value, as ``50ms`` and ``0.05s`` are."""
    return bool(collect_options(previous).parsed(key) == collect_options(wanted).parsed(key))


def _question(written: Options) -> Question:
    devices = (canonical(part.strip()) for part in written["device"].split(","))
    plain = Question(**written.fields_of(Question))
    metric = Metric.TOP1
    if written["metric"]:
        metric = require_known("--metric", written["metric"], tuple(METRICS))
        _require_costs("--metric", metric, written)
    limits = _limits(written, metric)
    default = TASKS[plain.task].default
    preference = written.parsed("prefer") or BALANCED
    robust = written.parsed("objective") == ROBUST
    for name in written["training"]:
        require_known("--training", name, list_choosable())
    # Fine-tuning starts from a head, so it is one of them.
    # For a fleet, a head for many networks comes first.
    usual = () if written["fleet"] else default
    trainings = (
        sort_trainings((HEAD, *(written["training"] or usual)))
        if written["data"]
        else (NO_TRAINING,)
    )
    costs = Costs.parse(written["costs"]) if written["costs"] else None
    return replace(
        plain,
        devices=tuple(dict.fromkeys(filter(None, devices))) or (HOST,),
        fleet=written["fleet"] or "",
        limits=limits,
        metric=metric,
        costs=costs,
        preference=preference,
        robust=robust,
        trainings=trainings,
        # If the user named recipes, all of them are evaluated (decision 0095).
        tuning_limited=bool(written["data"]) and not written["training"],
        guarantees=parse_guarantees(
            written["min_precision"], written["min_recall"], written["min_coverage"]
        ),
        thread_counts=tuple(sorted(set(written["threads"] or (1, usable_cores())))),
    )


def _execution(written: Options) -> Execution:
    executor, cluster = written.parsed("executor")
    limit = written["time_limit"]
    effort = written.parsed("effort")
    # An effort is a named time limit. A limit that the user wrote counts before it.
    usual = EFFORTS.get(effort, "")
    said = ""
    if effort:
        said = f" (before --effort {effort})" if limit else f" (--effort {effort})"
    time_limit_s = (
        written.parsed("time_limit")
        if limit or not usual
        else units.parse_seconds(usual, "--effort")
    )
    return replace(
        Execution(**written.fields_of(Execution)),
        time_limit_s=time_limit_s,
        time_limit=f"{limit or usual}{said}",
        capture_all=written.parsed("capture") == EACH_NETWORK,
        executor=executor,
        cluster=cluster,
    )


def _limits(written: Options, metric: str) -> Limits:
    min_accuracy, min_metrics = _read_floors(written, metric)
    max_drop_points, max_metric_drops = _read_drops(written, metric)
    return Limits(
        latency_ms=written.parsed("budget"),
        size_bytes=written.parsed("size_budget"),
        max_drop_points=max_drop_points,
        min_accuracy=min_accuracy,
        min_metrics=min_metrics,
        max_metric_drops=max_metric_drops,
        memory_bytes=written.parsed("memory_budget"),
        licence=Limits.parse_licences(written["licence"]),
        must_run_on=tuple(dict.fromkeys(map(canonical, written["must_run_on"]))),
        confidence=written.parsed("confidence") or CONFIDENCE,
    )


def _costs_text(text: str) -> str:
    """Return the table of costs as text, of a path or of the content that a request keeps."""
    # A text with a line break is no path but the table itself, as a stored request keeps it.
    if "\n" in text:
        return Costs.parse(text).text
    try:
        return Costs.parse(read_text(Path(text), COSTS_BYTES), text).text
    except UsageError as error:
        message = error.message
        named = message if message.startswith("--costs") else f"--costs: {message}"
        raise UsageError(named, error.hint) from None


def _fleet_text(text: str) -> str:
    """Return the table of a fleet as text:
    of a shipped fleet, of a path, or of the content that a request keeps.
    """
    shipped = {file.stem: file for file in find_shipped_fleets()}
    # As for costs: a stored request keeps the table itself.
    if "\n" in text:
        return text
    try:
        content = read_text(shipped.get(text, Path(text)), FLEET_BYTES)
    except UsageError as error:
        hint = f"{error.hint}; shipped fleets: {', '.join(shipped)}"
        raise UsageError(f"--fleet: {error.message}{nearest(text, shipped)}", hint) from None
    # Empty lines at the end must not make another question when the run is resumed.
    return f"{content.rstrip()}\n"


def _read_floors(written: Options, metric: str) -> tuple[float | None, MetricLimits]:
    """Return the least accuracy in %, None for none, and the least values of other metrics.

    ``--min-accuracy`` is ``85%`` for the metric that counts, ``worst-group=70%`` for another one,
    or both with commas.
    """
    texts = _split_by_metric(FLOORS, ",".join(written["min_accuracy"]), metric, "85%")
    floors = {}
    for name, text in texts.items():
        _require_costs(FLOORS, name, written)
        floors[name] = units.parse_percent(text, FLOORS)
    return floors.pop(metric, None), tuple(sorted(floors.items()))


def _read_drops(written: Options, metric: str) -> tuple[float | None, MetricLimits]:
    """Return the points of accuracy that may be lost, None for any, and those of other metrics.

    ``--max-drop`` is ``1pt`` for the metric that counts, ``map-small=5pt`` for another one,
    or both with commas.
    """
    texts = _split_by_metric(DROPS, written["max_drop"], metric, "1pt")
    drops = {name: units.parse_points(text, DROPS) for name, text in texts.items()}
    return drops.pop(metric, None), tuple(sorted(drops.items()))


def _split_by_metric(option: str, asked: str, metric: str, example: str) -> dict[str, str]:
    """Return the limit of each metric as text;
    one without a name is that of the ``metric`` that counts.
    """
    texts: dict[str, str] = {}
    for part in filter(None, map(str.strip, asked.split(","))):
        named, equals, text = part.rpartition("=")
        name = named.strip().casefold()
        # Limits of objects of a size are mostly written without the metric: small=5pt.
        name = f"map-{name}" if f"map-{name}" in METRICS else name
        name = require_known(option, name, tuple(METRICS)) if equals else metric
        if name in texts:
            raise UsageError(
                f"{option}: '{asked}' has two limits of {name}",
                f"keep one: {option} {name}={example}",
            )
        texts[name] = text.strip()
    return texts


def _require_costs(option: str, name: str, written: Options) -> None:
    if name == Metric.COST_SAVED and not written["costs"]:
        raise UsageError(
            f"{option}: {Metric.COST_SAVED} needs the cost of each answer", "add --costs costs.csv"
        )


def _contradictions(question: Question, training: tuple[str, ...]) -> Refusals:
    """Yield the parts of a question that contradict each other;
    ``training`` are the recipes that the user named.
    """
    task = question.of_task
    option = f"--task {question.task}"
    if not task.published and question.data is None:
        yield f"{option} needs --data: no card has a published {task.metric}", "add --data DIR"
    for name in training:
        if name not in task.trainings:
            yield (
                f"--training: '{name}' is not for {option}",
                f"one of: {', '.join(task.trainings)}; or leave it out",
            )
    for asked in question.guarantees.options:
        if asked not in task.guarantees:
            why = "answer every image" if task.guarantees else "have no probability of a class"
            yield f"{asked}: models for {option} {why}", f"leave {asked} out"
    yield from _contradicting_guarantees(question)
    yield from _refuse_input_size(question)
    if question.unknown is not None and not task.probabilities:
        why = f"--unknown: models for {option} have no probability of a class"
        yield why, "leave --unknown out; images without an object may be part of --data"
    if question.tune_training and not task.tunable:
        yield (
            f"--tune-training: fine-tuning for {option} has fixed hyperparameters",
            "leave --tune-training out",
        )
    if question.robust and not task.robust:
        why = f"--objective: robust accuracy is not for {option}"
        yield why, "leave --objective out: images are scored as they are"
    if question.fleet and question.limits.latency_ms is None:
        yield (
            "--fleet needs a latency limit: without one, the best file serves every phone",
            "add --budget 50ms",
        )
    if question.data is None:
        yield from _needs_data(question, training)
    # `none` keeps the classes of ImageNet, and the images have classes of their own.
    elif NO_TRAINING in training:
        others = ", ".join(name for name in task.trainings if name != NO_TRAINING)
        yield (
            "--training none cannot be combined with --data",
            f"take {others}, or leave --data out",
        )
    if question.tune_training and not any(
        recipe_of(name).tunes_backbone for name in question.trainings
    ):
        why = (
            f"--tune-training: {question.tune_training} trials of fine-tuning, and nothing is"
            " fine-tuned"
        )
        yield why, "add --training finetune_top, or leave --tune-training out"


def _refuse_input_size(question: Question) -> Refusals:
    """Yield why the networks cannot have the input of ``--input-size``."""
    side = question.input_size
    if not side:
        return
    if not TASKS[question.task].side:
        why = f"--input-size: each network for --task {question.task} has the input of its card"
        yield (
            why,
            "leave --input-size out, or name networks with another input: advisor catalog list",
        )
    # The backbones halve a map five times, so another side leaves a part of a cell.
    elif side % units.INPUT_STEP:
        smaller = side // units.INPUT_STEP * units.INPUT_STEP
        nearest_sizes = (
            f"{smaller} or {smaller + units.INPUT_STEP}" if smaller else str(units.INPUT_STEP)
        )
        why = (
            f"--input-size: {side} pixels are no multiple of {units.INPUT_STEP}, by which networks"
            " reduce an image"
        )
        yield why, f"take {nearest_sizes}"


def _contradicting_guarantees(question: Question) -> Refusals:
    """Yield what one threshold, for all classes or for each, cannot keep."""
    asked = question.guarantees
    task = question.of_task
    if task.probabilities or not task.guarantees:
        return
    if task.own_thresholds:
        twice = asked.precision.by_class.keys() & asked.recall.by_class.keys()
        both = asked.precision.plain is not None and asked.recall.plain is not None
        for name in ["all labels"] if both else sorted(f"'{name}'" for name in twice):
            why = f"{PRECISION} and {RECALL}: {name} cannot keep both with --task {task.name}"
            yield (
                why,
                (
                    f"a label has one threshold: leave one out, or write for example {RECALL}"
                    " NAME=90%"
                ),
            )
        return
    for option, shares in ((PRECISION, asked.precision), (RECALL, asked.recall)):
        for name in shares.by_class:
            why = f"{option}: '{name}' cannot have a share of its own with --task {task.name}"
            yield why, f"all classes have one threshold: write for example {option} 90%"
    if asked.precision and asked.recall:
        why = (
            f"{PRECISION} and {RECALL}: there is one threshold with --task {task.name}, which can"
            " keep one of them"
        )
        yield why, "leave one out; the report shows both shares for it"


def _needs_data(question: Question, training: tuple[str, ...]) -> Refusals:
    absent = "and --data is not given"
    folder = "add --data DIR (one sub-folder for each class), or leave"
    for name in training:
        if recipe_of(name).learns:
            yield f"--training: '{name}' learns from images, {absent}", f"{folder} --training out"
    if question.robust:
        yield (
            f"--objective: robust accuracy is measured on images, {absent}",
            f"{folder} --objective out",
        )
    for asked in question.guarantees.options:
        yield (
            f"{asked}: the threshold is chosen on images, {absent}",
            f"add --data DIR, or leave {asked} out",
        )
    if question.unknown is not None:
        why = f"--unknown: its images are compared with those of your classes, {absent}"
        yield why, "add --data DIR, or leave --unknown out"
    if question.limits.drops:
        yield (
            f"--max-drop: the drop is measured on images, {absent}",
            "add --data DIR, or leave --max-drop out",
        )


def _refuse_metrics(question: Question, written: Options) -> Refusals:
    """Yield a metric, costs or limits of metrics that the question cannot have."""
    limited = {
        FLOORS: dict(question.limits.min_metrics),
        DROPS: dict(question.limits.max_metric_drops),
    }
    given = {"--costs": written["costs"], "--metric": written["metric"], **limited}
    option = next((option for option, value in given.items() if value), "")
    if not option:
        return
    named = f"{option} {next(iter(limited[option]))}=..." if option in limited else option
    task = TASKS[question.task]
    counted = [question.metric] if written["metric"] or written["costs"] else []
    for name in (*counted, *limited[FLOORS], *limited[DROPS]):
        if name not in task.metrics:
            others = f"by {', '.join(task.metrics)}" if task.metrics else "by no other metric"
            yield (
                f"{named}: models for --task {task.name} are judged by {task.metric}, or {others}",
                f"leave {option} out",
            )
    for name in limited[DROPS]:
        if not METRICS[name].of_boxes:
            why = (
                f"{DROPS} {name}=...: of another metric than the one that counts, only detectors"
                " have a drop"
            )
            yield why, f"add --metric {name}, and write {DROPS} 1pt"
    if question.data is None:
        why = f"{named}: this metric is measured on images, and --data is not given"
        yield why, f"add --data DIR (one sub-folder for each class), or leave {option} out"
    if question.robust and question.metric != Metric.TOP1:
        asked = f"{named} asks for {question.metric}"
        yield (
            f"--objective robust-accuracy is top-1 under capture conditions, and {asked}",
            (
                "leave --objective out, or add --metric top1; other metrics can be limits:"
                " --min-accuracy macro-f1=80%"
            ),
        )


def _refuse_ship_on(request: Request) -> Refusals:
    """Yield why no file can learn from all images;
    only classifiers do, whose answers show whether it went well.
    """
    question = request.question
    option = "--ship-on all"
    if request.execution.ship_on != ShipOn.ALL:
        return
    if question.data is None:
        yield (
            f"{option} learns from images, and --data is not given",
            "add --data DIR, or leave --ship-on out",
        )
    if not question.of_task.probabilities:
        yield (
            f"{option} is not for --task {question.task}: only classifiers learn from all images",
            "leave it out",
        )


def _refuse_cloud(request: Request) -> Refusals:
    devices = (*request.question.devices, *request.question.limits.must_run_on)
    named = next(filter(ConnectionSettings.names_cloud, devices), None)
    if named is not None and request.execution.offline:
        yield (
            f"--offline opens no connection, and '{named}' is in a device cloud",
            "leave one of the two out",
        )


def _refuse_execution(execution: Execution) -> Refusals:
    sampler = execution.sampler
    folder = execution.shared_folder
    if execution.stop_below and sampler != Sampler.ADVISOR:
        why = f"--stop-below needs --sampler advisor, not '{sampler}'"
        yield why, "leave --stop-below out, or take --sampler advisor"
    if folder is not None and execution.executor == LOCAL:
        why = "--shared-folder: the local executor uses no other machines"
        yield why, "add --executor ray, or leave it out"
    if folder is not None and not folder.is_dir():
        why = f"--shared-folder: '{folder}' is not a folder on this machine"
        yield (
            why,
            (
                "name a folder that this machine and every node of the cluster see under the same"
                " name"
            ),
        )
