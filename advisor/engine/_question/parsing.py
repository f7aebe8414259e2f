"""Turn the options that a user wrote into a request: parsed and validated here, once.

Command line and Python interface call :func:`resolve` for a new search, ``--resume`` calls
:func:`resolve_resumed`, and a reader of a run gives :func:`resolve` the options that
``request.yaml`` keeps. So a run folder of today must be accepted tomorrow: give a new option a
default that leaves earlier questions as they were.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from advisor.core import (
    BALANCED,
    CONFIDENCE,
    EACH_NETWORK,
    EFFORTS,
    HOST,
    METRICS,
    PLAN,
    ROBUST,
    TASKS,
    Costs,
    Limits,
    Metric,
    Table,
    TrainingName,
    UsageError,
    list_choosable,
    nearest,
    require_known,
    show_flag,
    units,
)
from advisor.devices import canonical, find_shipped_fleets
from advisor.engine._question.guarantees import parse_guarantees
from advisor.engine._question.metric_limits import parse_drops, parse_floors, require_costs
from advisor.engine._question.options import (
    FREE_ON_RESUME,
    Options,
    collect_options,
    read_request_file,
)
from advisor.engine._question.refusals import find_refusals
from advisor.engine._question.values import Execution, Question, Request
from advisor.isolation import usable_cores
from advisor.store import read_text

COSTS_BYTES = 2**20
"""Largest table of costs, which the request keeps."""

FLEET_BYTES = 2**20
"""Largest table of a fleet, which the request keeps."""


def resolve(
    options: Mapping[str, object], file: Path | None = None, table: Table = PLAN
) -> Request:
    """Return the validated request. Precedence:
    ``options``, then the request file, then the defaults.

    Args:
        options: value by name of the option; None is an option that was not given.
        file: YAML with the same names.
        table: the options that there are.

    Raises:
        UsageError: an option is unknown or invalid, or two contradict each other.
    """
    from_file = _read_request(file) if file else {}
    return _build_request(collect_options({**from_file, **_drop_missing(options)}, table))


def _drop_missing(options: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in options.items() if value is not None}


def _build_request(written: Options) -> Request:
    """Return the request of options with their defaults; refuse what cannot be asked."""
    written = _keep_tables(written)
    # Leave to send files is never stored: each command needs the user's word.
    stored = {**written.to_dict(), "upload": False}
    question = _parse_question(written)
    request = Request(question, _parse_execution(written), written.parse_option("out"), stored)
    for message, hint in find_refusals(request, written):
        raise UsageError(message, hint)
    return request


def _keep_tables(written: Options) -> Options:
    """Return the options with the content of a table in place of its path.

    A resumed run notices other costs or another fleet, and needs no file of then.
    """
    values = dict(written.values)
    if values["costs"]:
        values["costs"] = _read_costs(values["costs"])
        values["metric"] = values["metric"] or Metric.COST_SAVED
    if values["fleet"]:
        values["fleet"] = _read_fleet(values["fleet"])
    return replace(written, values=values)


def _read_request(file: Path) -> Mapping[str, object]:
    """Return the options of a request file;
    refuse one that allows to send files, because files are passed on.
    """
    values = read_request_file(file)
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
    stored_options = _drop_missing(stored)
    stored_options.pop("schema_version", None)
    begun_with = collect_options(stored_options)
    previous = _build_request(begun_with)
    from_file = _read_request(file) if file else {}
    changes = {**from_file, **_drop_missing(options), "out": previous.written["out"]}
    if extend and units.parse_seconds(extend, "--extend"):
        changes["time_limit"] = extend
    _require_named_cluster(previous, changes)
    changed = collect_options(_drop_missing({**previous.written, **changes}))
    # Equal options make an equal request. Most runs are resumed without a change.
    wanted = previous if changed.values == begun_with.values else _build_request(changed)
    # `storage` may get its password again, so it is free, but it must lead to the same study.
    fixed = [*(key for key in changes if key not in FREE_ON_RESUME), "storage"]
    for key in fixed:
        _require_same_value(key, previous, wanted)
    return wanted


def _require_named_cluster(previous: Request, changes: Mapping[str, object]) -> None:
    """Refuse to send the jobs of a resumed run to a cluster that only the run folder names."""
    # A run folder may come from somebody else, and a cluster executes what it is sent.
    if previous.execution.cluster and "executor" not in changes:
        cluster = previous.written["executor"]
        raise UsageError(
            f"the run worked on the cluster '{cluster}', which no folder may choose: its answers"
            " can run code here",
            f"name it again: --executor {cluster}, or --executor local",
        )


def _require_same_value(key: str, previous: Request, wanted: Request) -> None:
    """Refuse an option whose value differs from that of the run that is resumed."""
    before = previous.written[key]
    now = wanted.written[key]
    # Two texts may be one value, as ``50ms`` and ``0.05s`` are.
    if before == now or _parse_stored(previous, key) == _parse_stored(wanted, key):
        return
    before_text = _show_value(before)
    now_text = _show_value(now)
    # These are whole tables, too long for a message.
    if key in ("costs", "fleet") and before_text and now_text:
        before_text = "of other content"
        now_text = "this one"
    flag = show_flag(key)
    begun = f"{flag} {before_text}" if before_text else f"no {flag}"
    raise UsageError(
        f"--resume: the run was begun with {begun}, not {now_text}",
        "leave it out to go on with the run's own question; start a new run for another"
        " one (finished work is reused), or decide again under other limits with advisor"
        " report",
    )


def _parse_stored(request: Request, key: str) -> object:
    """Return the value of an option of a request as a search uses it."""
    return Options(request.written, PLAN).parse_option(key)


def _show_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _parse_question(written: Options) -> Question:
    names = (canonical(part.strip()) for part in written["device"].split(","))
    devices = tuple(dict.fromkeys(filter(None, names)))
    thread_counts = tuple(sorted(set(written["threads"] or (1, usable_cores()))))
    plain = Question(thread_counts=thread_counts, **written.fields_of(Question))
    metric = Metric.TOP1
    if written["metric"]:
        metric = require_known("--metric", written["metric"], tuple(METRICS))
        require_costs("--metric", metric, written)
    return replace(
        plain,
        devices=devices or (HOST,),
        fleet=written["fleet"] or "",
        limits=_parse_limits(written, metric),
        metric=metric,
        preference=written.parse_option("prefer") or BALANCED,
        robust=written.parse_option("objective") == ROBUST,
        trainings=_choose_trainings(written, TASKS[plain.task].default),
        costs=Costs.parse(written["costs"]) if written["costs"] else None,
        # If the user named recipes, all of them are evaluated (decision 0095).
        tuning_limited=bool(written["data"]) and not written["training"],
        guarantees=parse_guarantees(
            written["min_precision"], written["min_recall"], written["min_coverage"]
        ),
    )


def _choose_trainings(written: Options, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the training recipes, the lightest first: those that the user named,
    else the ``default`` ones of the task.
    """
    for name in written["training"]:
        require_known("--training", name, list_choosable())
    if not written["data"]:
        return (TrainingName.NONE,)
    # For a fleet, a head for many networks comes first.
    usual = () if written["fleet"] else default
    # Fine-tuning starts from a head, so it is one of them.
    chosen = (TrainingName.HEAD, *(written["training"] or usual))
    return tuple(name for name in list_choosable() if name in chosen)


def _parse_execution(written: Options) -> Execution:
    executor, cluster = written.parse_option("executor")
    time_limit_s, time_limit = _parse_time_limit(written)
    return replace(
        Execution(**written.fields_of(Execution)),
        time_limit_s=time_limit_s,
        time_limit=time_limit,
        capture_all=written.parse_option("capture") == EACH_NETWORK,
        executor=executor,
        cluster=cluster,
    )


def _parse_time_limit(written: Options) -> tuple[float | None, str]:
    """Return the time limit in seconds, None for none, and as a message shows it.

    An effort is a named time limit. A limit that the user wrote counts before it.
    """
    limit = written["time_limit"]
    effort = written.parse_option("effort")
    usual = EFFORTS.get(effort, "")
    if limit or not usual:
        limit_s = written.parse_option("time_limit")
    else:
        limit_s = units.parse_seconds(usual, "--effort")
    said = ""
    if effort:
        said = f" (before --effort {effort})" if limit else f" (--effort {effort})"
    return limit_s, f"{limit or usual}{said}"


def _parse_limits(written: Options, metric: str) -> Limits:
    min_accuracy, min_metrics = parse_floors(written, metric)
    max_drop_points, max_metric_drops = parse_drops(written, metric)
    return Limits(
        latency_ms=written.parse_option("budget"),
        size_bytes=written.parse_option("size_budget"),
        max_drop_points=max_drop_points,
        min_accuracy=min_accuracy,
        min_metrics=min_metrics,
        max_metric_drops=max_metric_drops,
        memory_bytes=written.parse_option("memory_budget"),
        licence=Limits.parse_licences(written["licence"]),
        must_run_on=tuple(dict.fromkeys(map(canonical, written["must_run_on"]))),
        confidence=written.parse_option("confidence") or CONFIDENCE,
    )


def _read_costs(text: str) -> str:
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


def _read_fleet(text: str) -> str:
    """Return the table of a fleet as text:
    of a shipped fleet, of a path, or of the content that a request keeps.
    """
    # As for costs: a stored request keeps the table itself.
    if "\n" in text:
        return text
    shipped = {file.stem: file for file in find_shipped_fleets()}
    try:
        content = read_text(shipped.get(text, Path(text)), FLEET_BYTES)
    except UsageError as error:
        hint = f"{error.hint}; shipped fleets: {', '.join(shipped)}"
        raise UsageError(f"--fleet: {error.message}{nearest(text, shipped)}", hint) from None
    # Empty lines at the end must not make another question when the run is resumed.
    return f"{content.rstrip()}\n"


def sort_trainings(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names from the lightest to the heaviest, each once."""
    return tuple(name for name in list_choosable() if name in names)
