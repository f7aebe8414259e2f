"""The runs of a folder as a list shows them: each from its small files, and damaged ones with the
reason.

``advisor runs`` and ``serve`` ask :class:`Runs`. A row is read again only if a file of the run
changed; :class:`RunIndex` keeps the rows in the cache between commands.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from advisor.core import (
    DEFAULT_TASK,
    HOST,
    METRICS,
    TASKS,
    AdvisorError,
    Evaluation,
    Metric,
    Status,
    UsageError,
    broken_rule,
    message_of,
    nearest,
    parse,
    to_json,
    units,
)
from advisor.datasets import DEMO_NOTE
from advisor.engine import Snapshot
from advisor.reporting._blocks import DataTable, Paragraph, TableColumn, columns, show
from advisor.reporting._row_selection import Rows
from advisor.reporting._run_rows import (
    RunColumn,
    RunRow,
    RunState,
    accuracy_of,
    figures,
    map_columns,
)
from advisor.reporting._text import describe_machine
from advisor.reporting._view import make_typed_path
from advisor.store import (
    Problem,
    RunFolder,
    cache_root,
    read_document,
    read_json,
    sha256_json,
    write_atomically,
)
from advisor.version import __version__

LONGEST_WHOLE = 46
"""Characters of the longest name of a run that the list keeps on one line."""

ANSWER = "recommendation.json"
MANIFEST = "manifest.json"
REPORT = "report.html"
STAMPED = ("request.yaml", MANIFEST, ANSWER, "evaluations.jsonl", REPORT)
LIMITS = (
    "budget",
    "size_budget",
    "memory_budget",
    "max_drop",
    "min_accuracy",
    "device",
    "data",
    "prefer",
)

_ADVICE = re.compile(r"Ship|.*?:")
"""Beginnings of the first line of an answer, before the path of a file."""

_COLUMNS = (
    TableColumn[Any]("run", left=True, whole=True),
    TableColumn[Any]("state", left=True, whole=True),
    *columns("pick", "accuracy", left=("pick",)),
    TableColumn[Any]("of", left=True, width=140),
    TableColumn[Any]("latency", width=100),
    TableColumn[Any]("on", left=True, width=140),
    TableColumn[Any]("size", width=100),
)

# What makes rows; the number is raised when equal runs have another one.
INDEX = f"{__version__}, 3"


def _list_values(row: RunRow) -> dict[str, object]:
    """Return the values of a run by column."""
    pick = row.pick
    accuracy = accuracy_of(pick) if pick else -1.0
    return {
        "run": row.name,
        "state": row.state.value,
        "pick": row.model,
        "feasible": row.feasible,
        "accuracy_percent": accuracy if accuracy >= 0 else None,
        "latency_ms": pick.latency.value if pick and pick.latency else None,
        "size_bytes": pick.size.value if pick and pick.size else None,
        "budget": dict(row.limits).get("budget", ""),
        "why": row.why,
        "remark": row.remark,
    }


@cache
def make_run_rows() -> Rows[RunRow]:
    """Return how runs become rows, one each."""
    return Rows(tuple(_list_values(RunRow("", RunState.DAMAGED))), _list_values)


def print_runs(rows: Sequence[RunRow]) -> None:
    """Write a table of runs to standard output; those without a pick say why."""
    cells = list(map(_list_cells, rows))
    run, *others = _COLUMNS
    # A re-evaluation has a long name, which would leave no room for its pick.
    is_short = max((len(row.name) for row in rows), default=0) <= LONGEST_WHOLE
    table = DataTable((replace(run, whole=is_short), *others), cells)
    show([table] if rows else [Paragraph("There are no runs.")])


def _list_cells(row: RunRow) -> tuple[str, ...]:
    answer = row.why if row.state is RunState.DAMAGED else row.model
    if row.pick and answer == row.model and not row.feasible:
        answer = f"{answer} (closest; nothing meets the limits)"
    state = f"{row.state}, not verifiable" if row.remark else row.state.value
    accuracy, latency, size = figures(row.pick)
    # Runs of several tasks and devices stand below one another.
    metric, device = (row.metric, row.pick.configuration.target.device) if row.pick else ("", "")
    return row.name, state, answer or row.why or "no pick", accuracy, metric, latency, device, size


class Runs:
    """The runs that are directly in one folder;
    links are left out, because they can lead out of it.
    """

    STATES = tuple(RunState)

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            hint = (
                "name the folder that holds your runs; advisor search makes the first one in runs/"
            )
            raise UsageError(f"'{folder}' is not a folder", hint)
        self.folder = folder.resolve()
        self._known: dict[str, tuple[object, RunRow]] = {}
        self._index: RunIndex | None = None

    def names(self) -> list[str]:
        """Return the names of the runs, the newest first."""
        with os.scandir(self.folder) as entries:
            folders = []
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
        # A run that lost its request is listed as damaged, not passed over.
        runs = []
        for path in folders:
            if (path / "request.yaml").exists() or (path / "artifacts").is_dir():
                runs.append(path)
        return sorted((path.name for path in runs), reverse=True)

    def path(self, name: str) -> Path:
        """Return the folder of a run. Raises UsageError: there is no run of this name."""
        # Only a name of the list is joined to the folder,
        # so no name from an address leads out of it.
        names = self.names()
        if name not in names:
            raise UsageError(
                f"there is no run '{name}'{nearest(name, names)}",
                "the list has all runs of the folder",
            )
        return self.folder / name

    @property
    def columns(self) -> Mapping[str, RunColumn]:
        """The columns of the list by name."""
        return map_columns()

    def read_report(self, name: str) -> bytes | None:
        """Return the HTML report of a run; None without one, or if the run is damaged."""
        row = self.row(name)
        if not row.report or row.state is RunState.DAMAGED:
            return None
        return (self.path(name) / REPORT).read_bytes()

    def rows(self) -> tuple[RunRow, ...]:
        """Return all runs, the newest first;
        what is known of those that did not change is kept for the next time.
        """
        names = self.names()
        rows = tuple(self._find_row(self.folder / name) for name in names)
        if self._index is not None:
            self._index.write(names)
        return rows

    def row(self, name: str) -> RunRow:
        """Return one run, read again only if its files changed;
        UsageError if there is none of this name.
        """
        return self._find_row(self.path(name))

    def _find_row(self, path: Path) -> RunRow:
        """Return the row of a run, read again only if one of its files has changed."""
        running = RunFolder(path).in_use()
        stamp = (running, *(_read_stamp(path / file) for file in STAMPED))
        entry = self._known.get(path.name)
        if entry is None or entry[0] != stamp:
            self._index = self._index or RunIndex(self.folder)
            # The files of a search that runs change before its row could be used again.
            row = None if running else self._index.row(path.name, stamp)
            entry = self._known[path.name] = (stamp, row or _read_row(path, running))
            if not (running or row):
                self._index.keep(path.name, stamp, entry[1])
        # What a search does changes without a change of the files in the stamp.
        if running:
            return replace(entry[1], snapshot=Snapshot.read_last(RunFolder(path)))
        return entry[1]


class RunIndex:
    """Facts known of the runs of a folder, in one file of the cache;
    one that is lost or damaged is made again.
    """

    def __init__(self, folder: Path) -> None:
        self._file = cache_root() / "runs" / f"{sha256_json(str(folder))[:16]}.json"
        self._rows: dict[str, Any] = {}
        self._changed = False
        try:
            index = read_json(self._file)
            if (
                isinstance(index, dict)
                and index["made_by"] == INDEX
                and index["sha256"] == sha256_json(index["rows"])
            ):
                self._rows = index["rows"]
        except (AdvisorError, OSError, ValueError, KeyError, TypeError):
            self._changed = True

    def row(self, name: str, stamp: object) -> RunRow | None:
        """Return the row of a run whose files have the sizes and times of the stamp;
        None if it is not known.
        """
        try:
            entry = self._rows[name]
            row: RunRow = parse(RunRow, entry["row"])
        except (KeyError, TypeError, ValueError):
            return None
        # Compared as text, because JSON turns the tuples of a stamp into lists.
        return row if entry["stamp"] == repr(stamp) else None

    def keep(self, name: str, stamp: object, row: RunRow) -> None:
        """Remember the row of a run, unless its name is no text."""
        # JSON has no bytes, and such a name is rare.
        if name.encode(errors="replace").decode() != name:
            return
        self._rows[name] = {"stamp": repr(stamp), "row": to_json(row)}
        self._changed = True

    def write(self, names: Sequence[str]) -> None:
        """Write the rows of these runs if something changed;
        a cache that cannot be written is no error.
        """
        if self._changed:
            self._rows = {name: self._rows[name] for name in names if name in self._rows}
            with suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                content = {"made_by": INDEX, "sha256": sha256_json(self._rows), "rows": self._rows}
                write_atomically(self._file, json.dumps(content))
        self._changed = False


def _read_stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def _read_row(path: Path, running: bool) -> RunRow:
    """Return the row of a run, also of one that is damaged or has just begun."""
    try:
        return _make_row(RunFolder.open(path), running)
    # Files of a run can hold anything, and one damaged run must not hide the others of the list.
    except (AdvisorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if running:
            return RunRow(path.name, RunState.RUNNING, "the search has just begun")
        is_known = isinstance(error, AdvisorError | OSError)
        why = message_of(error) if is_known else f"{ANSWER} is damaged ({message_of(error)})"
        return RunRow(path.name, RunState.DAMAGED, why)


def _make_row(run: RunFolder, running: bool) -> RunRow:
    """Return the row of a run. Raises UsageError: its request is damaged."""
    request = run.read_request()
    manifest = run.read_json(MANIFEST)
    document = None
    if (run.path / ANSWER).exists():
        document = read_document(run.path / ANSWER)
    answer = document.entries if document else {}
    evaluations = run.evaluations()
    state, why = _find_state(run, manifest, running)
    problems = () if running else Problem.list_in_run(run, artefacts=False)
    old = [problem for problem in problems if problem.is_old]
    faults = _list_faults(problems, is_finished=state is RunState.FINISHED)
    if document is not None and not running:
        faults += [f"{ANSWER} {problem}" for problem in document.problems]
    if faults:
        state = RunState.DAMAGED
        why = "; ".join(faults)
    # An answer that was changed after the search is not shown as that of the run.
    is_trusted = not any(problem.is_change and ANSWER in problem.file for problem in problems)
    finished = [row for row in evaluations if row.status is Status.OK]
    return RunRow(
        name=run.path.name,
        state=state,
        why=why,
        task=str(request.get("task") or ""),
        metric=_name_metric(request),
        limits=tuple(_list_limits(request)),
        reason=str(answer.get("reason") or ""),
        pick=_read_pick(answer) if is_trusted else None,
        feasible=answer.get("feasible") is True,
        done=_count_by_status(evaluations),
        configurations=manifest.get("configurations") or 0,
        latest=finished[-1] if running and finished else None,
        changed=_show_change_time(run),
        report=(run.path / REPORT).is_file(),
        remark="; ".join(map(str, old)),
        opening=_read_opening(answer, run.path) if is_trusted else (),
        machine=describe_machine(manifest),
    )


def _count_by_status(evaluations: Sequence[Evaluation]) -> Mapping[str, int]:
    """Return the numbers of configurations with a result by status.

    With several devices, each configuration has a row for each of them: one device counts.
    """
    by_device = defaultdict[str, Counter[str]](Counter)
    for evaluation in evaluations:
        by_device[evaluation.configuration.target.device][evaluation.status.value] += 1
    return max(by_device.values(), key=Counter.total, default=Counter[str]())


def _list_faults(problems: Sequence[Problem], is_finished: bool) -> list[str]:
    """Return the problems of a run folder that make the run a damaged one."""
    faults = []
    for problem in problems:
        if problem.is_old:
            continue
        # A search that was stopped has neither all files nor a complete last line.
        if is_finished or "is damaged" in problem.what or problem.is_change:
            faults.append(str(problem))
    return faults


def _name_metric(request: Mapping[str, Any]) -> str:
    """Return what the accuracy of a run is, as a heading begins."""
    task = TASKS.get(str(request.get("task")), TASKS[DEFAULT_TASK])
    metric = METRICS.get(str(request.get("metric")))
    if metric and metric.name != Metric.TOP1:
        task = replace(task, metric=metric.label)
    return task.heading


def _show_change_time(run: RunFolder) -> str:
    """Return the date and time of the last result; empty without one."""
    stamp = _read_stamp(run.evaluations_file)
    if stamp is None:
        return ""
    modified_ns, _ = stamp
    return units.show_time(datetime.fromtimestamp(modified_ns / 1e9, UTC))


def _list_limits(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options of a question that limit its answer, as the user wrote them."""
    for name in LIMITS:
        value = _show_value(request.get(name))
        # This machine is the usual device, so it limits nothing.
        if value and value != HOST:
            yield name.replace("_", " "), value


def _read_opening(answer: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Return the lines that an answer begins with,
    after the one that says that it is a demonstration.

    ``folder`` is where the run lies now: the document names the one in which it was written.
    """
    remarks = []
    for remark in answer.get("remarks") or ():
        if remark == DEMO_NOTE:
            remarks.append(remark)
    lines = list(map(str, answer.get("opening") or ()))
    pick = answer.get("pick") or {}
    file = (pick.get("on_all") or {}).get("file") or pick.get("artefact")
    if lines and file:
        before, path, after = lines[0].partition(f"/{file}")
        advice = _ADVICE.match(before)
        if path and advice:
            lines[0] = f"{advice[0]} {make_typed_path(folder)}{path}{after}"
    return (*remarks, *lines)


def _read_pick(answer: Mapping[str, Any]) -> Evaluation | None:
    """Return the pick of an answer without details. Raises ValueError: it breaks a rule."""
    pick = Evaluation.from_json(answer["pick"]) if answer.get("pick") else None
    # Files of one graph share their latency,
    # so that of an answer may be of more timings than the pick's own.
    rule = broken_rule(replace(pick, timing=None)) if pick else ""
    if rule:
        raise ValueError(f"its pick breaks the rule that {rule}")
    # Hundreds of runs are listed, and the details of each are most of its size.
    return Evaluation.from_json({**answer["pick"], "details": {}}) if pick else None


def _find_state(
    run: RunFolder, manifest: Mapping[str, Any], running: bool
) -> tuple[RunState, str]:
    """Return the state of a run, and why it ended."""
    stopped = manifest.get("stopped") or {}
    if running:
        return RunState.RUNNING, ""
    if stopped.get("why") == "interrupt":
        return RunState.INTERRUPTED, "it was interrupted"
    if stopped or (manifest and "configurations" not in manifest):  # a re-evaluation has no plan
        return RunState.FINISHED, stopped.get("text", "")
    why = "its process ended before the search did"
    last = Snapshot.read_last(run)
    if last:
        why += f", while {last.now}"
    return RunState.INTERRUPTED, why


def _show_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value or "")
