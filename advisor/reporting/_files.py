"""The report files of a run: ``recommendation.json``, ``front.csv``, ``front.parquet``,
``report.md`` and ``report.html``.

A search writes them whenever it has a new answer, and a report again (:func:`write_all`,
:func:`write_own`). Other programs read the JSON and the CSV: their entries are a contract
(:data:`SCHEMA_VERSION`). :class:`Writers` writes in child processes, which find
:func:`write_at` by its name.
"""

from __future__ import annotations

import csv
import io
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from advisor.core import (
    Decision,
    Evaluation,
    ImageAnswers,
    Status,
    UsageError,
)
from advisor.engine import Incumbent, LoadedRun, StageName
from advisor.isolation import ChildPool, Scratch, usable_cores
from advisor.reporting import _blocks as blocks, _phrases as phrases, _text as text
from advisor.reporting._answer import list_alternatives, make_headline, other_risks
from advisor.reporting._answer_table import make_written_table
from advisor.reporting._blocks import Labelled, Paragraph
from advisor.reporting._classes import class_blocks
from advisor.reporting._device_results import foreign_runtimes
from advisor.reporting._explanation import opening_lines
from advisor.reporting._failures import list_failures
from advisor.reporting._figures import key_figures
from advisor.reporting._foundations import list_foundations
from advisor.reporting._frames import (
    AnswerRows,
    choose_rows,
    evaluations_frame,
    front_of,
    make_answer_rows,
    map_columns,
)
from advisor.reporting._html import render_html
from advisor.reporting._markdown import draw_markdown
from advisor.reporting._metrics import metric_blocks
from advisor.reporting._object_sizes import size_blocks
from advisor.reporting._risks import list_risks
from advisor.reporting._steps import step_blocks
from advisor.reporting._unknown_images import unknown_blocks
from advisor.reporting._view import RunView, report_parts
from advisor.store import RunFolder, ensure_output_dir, write_atomically

_log = logging.getLogger(__name__)

FAILURES_SHOWN = 20
CLASSES_NAMED = 20

ANSWER_FILE = "recommendation.json"
PARQUET = "front.parquet"
REPORT_FILES = (ANSWER_FILE, "front.csv", PARQUET, "report.md", "report.html")
WRITE_AT = f"{__name__}:write_at"
SCHEMA_VERSION = 1
"""Version of recommendation.json and front.csv; raised when either changes its meaning."""


def render_markdown(view: RunView) -> str:
    """Return the report. A part that fails becomes an error line;
    the other parts are not affected.
    """
    added = (part.blocks for part in report_parts().values())
    contents = (
        make_headline,
        *added,
        _list_figures,
        _list_choices,
        make_written_table,
        class_blocks,
        size_blocks,
        _list_metrics,
        unknown_blocks,
        _explain_losses,
        _list_failures,
        _describe_data,
        _describe_method,
    )
    return "\n\n".join(filter(None, (_draw_part(content, view) for content in contents))) + "\n"


def _draw_part(content: Callable[[RunView], Iterable[blocks.Block]], view: RunView) -> str:
    try:
        return draw_markdown(content(view))
    except Exception as error:
        _log.exception("report.md: the part '%s' could not be made", content.__name__)
        what = text.escape_markdown(f"{type(error).__name__}: {error}")
        return f"> This part could not be made: {what}"


def _list_figures(view: RunView) -> Iterator[blocks.Block]:
    pick = view.decision.pick
    if pick:
        yield blocks.Figures(key_figures(view, pick))
        yield blocks.Items(list_foundations(view, pick))


def _list_choices(view: RunView) -> Iterator[blocks.Block]:
    yield from list_alternatives(view)
    yield from step_blocks(view)
    for risk in other_risks(view):
        yield Labelled(f"Risk, {risk.level}", f"{risk.name}: {risk.text}")


def _list_metrics(view: RunView) -> Iterable[blocks.Block]:
    return metric_blocks(view)[1:]


def _explain_losses(view: RunView) -> Iterator[blocks.Block]:
    if view.insights.disagreements is not None:
        yield Labelled("What compression changes", view.insights.disagreements.sentence)
    for row, diagnosis in view.diagnosed:
        why = diagnosis.verdict[1] if len(diagnosis.verdict) > 1 else diagnosis.verdict[0]
        yield Labelled(f"Why {text.name(row)} loses {text.points(row.drop)} points", why)


def _list_failures(view: RunView) -> Iterator[blocks.Block]:
    """Yield what each step of the search left, and the first rows that failed or were skipped."""
    if view.evaluations:
        names = {
            StageName.STOP.value: "reached",
            "meets the budget": "within the budget",
            "the pick": "picked",
        }
        steps = []
        for step in phrases.funnel(view):
            steps.append(f"{step.left} {names.get(step.name, step.name)}")
        yield Paragraph(f"Left: {' → '.join(steps)}.")
    stopped = (*view.with_status(Status.FAILED), *view.with_status(Status.SKIPPED))
    # What a search did not reach is counted above; most of it has no row.
    rows = [row for row in stopped if row.stage != StageName.STOP]
    if rows:
        more = len(rows) - FAILURES_SHOWN
        rest = [f"{more} more are in report.html."] if more > 0 else []
        yield blocks.Group([list_failures(rows[:FAILURES_SHOWN], rest)], _count_stopped(rows))


def _count_stopped(rows: Sequence[Evaluation]) -> str:
    """Return how many evaluations failed and were skipped: ``2 failed, 46 skipped``."""
    statuses = Counter(row.status for row in rows)
    counts = []
    for status in (Status.FAILED, Status.SKIPPED):
        if statuses[status]:
            counts.append(f"{statuses[status]} {status.value}")
    return ", ".join(counts)


def _describe_data(view: RunView) -> Iterator[blocks.Block]:
    dataset = view.dataset
    if dataset is not None:
        rejected = f", {len(dataset.rejected)} files not used" if dataset.rejected else ""
        more = ", ..." if len(dataset.classes) > CLASSES_NAMED else ""
        named = (
            f"{len(dataset.classes)} classes ({', '.join(dataset.classes[:CLASSES_NAMED])}{more})"
        )
        yield Paragraph(
            f"Images: {dataset.counted} in {named}, {phrases.parts(dataset)}{rejected}."
        )
        yield from map(Paragraph, filter(None, (*dataset.notes, dataset.leaking)))


def _describe_method(view: RunView) -> Iterator[blocks.Block]:
    command = phrases.command_line(view)
    if command:
        yield blocks.Code(command)
    yield Paragraph(
        f"Run {view.name}. {phrases.show_value(view.manifest.get('versions') or {})}".rstrip()
    )


def report_folder(folder: Path, force: bool = False) -> Path:
    """Make the folder for the report files;
    refuse a run folder, and without ``force`` one with report files.
    """
    if (folder / "request.yaml").exists():
        message = f"--to: '{folder}' is a run folder, which keeps the report of its own question"
        raise UsageError(message, "choose another folder")
    ensure_output_dir(folder, REPORT_FILES, force)
    return folder


def write_all(view: RunView, folder: Path) -> tuple[Path, ...]:
    """Write all files into ``folder``, each atomically;
    those for programs first, in case the page fails.

    ``front.parquet`` is left out if the package that writes it is not installed, and of a search
    that has not ended: to import it takes longer than all else of an answer so far.
    """
    names: tuple[str, ...] = REPORT_FILES
    if view.insights.unfinished or not find_spec("fastparquet"):
        names = tuple(name for name in REPORT_FILES if name != PARQUET)
        # A search that is continued has one of its earlier end.
        (folder / PARQUET).unlink(missing_ok=True)
    for name in names:
        content = _map_renderers()[name](view)
        # Bytes of file names that are not text are written as escapes.
        data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        write_atomically(folder / name, data)
    return tuple(folder / name for name in names)


def write_own(run: RunFolder, view: RunView | None = None) -> tuple[Path, ...]:
    """Write all files of a run into its folder, and their hashes into its seal;
    ``view`` is its content if it is known.

    Raises AdvisorError if the run cannot be read.
    """
    files = write_all(view or RunView.load(run), run.path)
    run.reseal(*(file.name for file in files))
    return files


def write_at(run: Path) -> None:
    """Write all files of the run in a folder, see :func:`write_own`."""
    write_own(RunFolder.open(run))


class Writers:
    """Write the files of runs: of several ones in child processes on all cores but one, while the
    caller answers further runs; of a single one here.
    """

    def __init__(self, several: bool) -> None:
        # A report takes seconds of processor time,
        # which the caller's own process needs for the next run.
        children = usable_cores() - 1 if several else 0
        self._pool = ChildPool() if children > 0 else None
        self._threads = ThreadPoolExecutor(max(1, children))
        self._written: dict[Path, Future[None]] = {}

    def write(self, run: LoadedRun) -> None:
        """Write the files of a run that has none."""
        path = run.folder.path
        if path in self._written or (path / ANSWER_FILE).exists():
            return
        if self._pool is None:
            write_own(run.folder, RunView.of_run(run))
        else:
            self._written[path] = self._threads.submit(self._pool.call, WRITE_AT, path)

    def wait(self) -> None:
        """Return when the files of all runs are written, or could not be."""
        wait(self._written.values())

    def problem(self, run: Path | None) -> str:
        """Wait for the files of a run, if any, and return why they could not be written;
        empty if they were.
        """
        error = self._written[run].exception() if run and run in self._written else None
        return f"its report could not be written: {error}" if error else ""

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, *_: object) -> None:
        # The threads first, because they wait for calls in the children of the pool.
        self._threads.shutdown(cancel_futures=True)
        if self._pool:
            self._pool.close()


def recommendation_json(view: RunView) -> str:
    """Return the answer for programs:
    ``schema_version`` 1, figures in base units with their provenance.
    """
    return (
        json.dumps(
            text.finite(recommendation(view)), indent=2, ensure_ascii=False, allow_nan=False
        )
        + "\n"
    )


def recommendation(view: RunView, rows: AnswerRows | None = None) -> dict[str, object]:
    """Return the answer as plain values;
    ``rows`` says which ones of the front, and in which order.
    """
    decision = view.decision
    insights = view.insights
    pick = decision.pick
    tuning = insights.tuning
    fine_tuning = None
    if tuning:
        fine_tuning = {**asdict(tuning), "command": tuning.command(view.folder)}
    return {
        "schema_version": SCHEMA_VERSION,
        "run": view.name,
        "unfinished": asdict(insights.unfinished) if insights.unfinished else None,
        "task": view.request.question.task,
        "metric": view.metric,
        "budget": asdict(view.limits),
        "prefer": view.request.written["prefer"] or "balanced",
        "feasible": decision.feasible,
        "opening": opening_lines(view),
        "unknown_conditions": view.unknown_conditions(pick) if pick else "",
        "probabilities": view.limits.probabilities(pick) if pick else {},
        "reason": decision.reason,
        "why_not_faster": decision.why_not_faster,
        "rule": decision.rule,
        "pick": pick.to_json() if pick else None,
        "runner_up": _write_brief(decision.runner_up),
        "runner_up_reason": decision.runner_up_reason,
        "incumbents": list(map(_write_incumbent, insights.incumbents)),
        "ties": [evaluation.configuration.key for evaluation in decision.ties],
        "noise_points": decision.noise_points,
        "unjudged": decision.unjudged.configuration.key if decision.unjudged else None,
        "chances": decision.chances,
        "flips": list(map(asdict, decision.flips)),
        "relaxations": list(map(asdict, decision.relaxations)),
        "loosenings": list(map(asdict, decision.loosenings)),
        "fine_tuning": fine_tuning,
        "front": list(map(_write_brief, choose_rows(view, decision.front, rows))),
        "risks": list(map(asdict, list_risks(view, pick))) if pick else [],
        "labels": asdict(insights.labels) if insights.labels else None,
        "remarks": [
            *filter(None, [view.demonstration]),
            *view.problems,
            *view.remarks,
            *foreign_runtimes(view),
        ],
        "devices": {
            device: _write_decision(device_decision)
            for device, device_decision in view.by_device.items()
        },
        **{name: part.document(view) for name, part in report_parts().items()},
    }


def _write_incumbent(incumbent: Incumbent) -> dict[str, object]:
    """Return a file that the user ships, and what switching to the pick gains."""
    return {
        "evaluation": _write_brief(incumbent.evaluation),
        "picked": incumbent.picked,
        "switching_points": incumbent.points.to_json() if incumbent.points else None,
        "switching_part": incumbent.part,
    }


def _write_decision(decision: Decision) -> dict[str, object]:
    """Return the decision for one device alone."""
    return {
        "feasible": decision.feasible,
        "reason": decision.reason,
        "pick": _write_brief(decision.pick),
        "runner_up": decision.runner_up.configuration.key if decision.runner_up else None,
        "relaxations": list(map(asdict, decision.relaxations)),
        "front": [evaluation.configuration.key for evaluation in decision.front],
    }


def _write_brief(evaluation: Evaluation | None) -> dict[str, object] | None:
    """Return an evaluation without its answers by class and to unknown images,
    which only the pick has.
    """
    if evaluation is None:
        return None
    answers = ImageAnswers(file=evaluation.answers.file, metrics=evaluation.answers.metrics)
    judged = evaluation.holdout_answers
    held = ImageAnswers(metrics=judged.metrics) if judged and judged.metrics else None
    return replace(evaluation, answers=answers, holdout_answers=held, unknown=None).to_json()


def front_csv(view: RunView) -> str:
    """Return the front, one line an evaluation, fastest first;
    a figure that is not known is an empty cell.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map_columns())
    writer.writerows(
        map(text.spreadsheet, make_answer_rows().cells((view, row)).values())
        for row in front_of(view)
    )
    return buffer.getvalue()


def front_parquet(view: RunView) -> bytes:
    """Return the table of :func:`front_csv` as a Parquet file,
    which keeps the types of its columns.
    """
    from fastparquet import write

    with Scratch() as folder:
        # The encoding is stated, because fastparquet otherwise guesses it
        # from the first values of a column.
        write(
            str(folder / PARQUET), evaluations_frame(view, front_of(view)), object_encoding="utf8"
        )
        return (folder / PARQUET).read_bytes()


@cache
def _map_renderers() -> Mapping[str, Callable[[RunView], str | bytes]]:
    """Return the function that renders each file of :data:`REPORT_FILES`."""
    return {
        ANSWER_FILE: recommendation_json,
        "front.csv": front_csv,
        PARQUET: front_parquet,
        "report.md": render_markdown,
        "report.html": render_html,
    }
