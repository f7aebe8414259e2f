"""The answer of ``advisor profile``: the time of each operator, on the terminal and as a page.

The command calls :func:`print_profile` and :meth:`ProfileFiles.write_profile` with the values of
``measurement``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from advisor.core import Diagnosis, UsageError, plural, show_bytes
from advisor.measurement import Delegation, EthosEstimate, OperatorTime, Profile, TypeTime
from advisor.reporting import _blocks as blocks
from advisor.reporting._blocks import WIDE, Labelled, Paragraph, Span, TableColumn, table_of
from advisor.reporting._compression import diagnosis_html, diagnosis_lines
from advisor.reporting._pages import (
    asset,
    json_for_script,
    plotly_script,
    render_page,
    trust_content,
)
from advisor.reporting._text import figure

FILES = {"html": "profile.html", "json": "profile.json"}
"""The formats of a profile, with the names of their files in a folder."""

BARS = 20

SHOWN = 10
REASONS_SHOWN = 6

GOOD_COVERAGE = (0.95, 1.02)
"""Smallest and largest ratio of the time of all operators to that
of a run with which a profile is complete.
"""

OPERATIONS_PER_MAC = 2
"""A multiply-accumulate is a multiplication and an addition."""


class StepRow(NamedTuple):
    """A row of the table of steps."""

    step: OperatorTime
    cumulative: float  # share (0-1) of the time of this row and those above it


def _show_place(row: OperatorTime | TypeTime) -> blocks.Words:
    if row.where == "builtin":
        return Span(row.where, "warn")
    return row.where


@cache
def _list_step_columns() -> tuple[TableColumn[StepRow], ...]:
    """Return the columns of the steps of a run."""
    return (
        TableColumn("step", lambda row: row.step.position),
        TableColumn("type", lambda row: Span(row.step.type, "name"), left=True, head=True),
        TableColumn("where", lambda row: _show_place(row.step), left=True),
        TableColumn("time us", lambda row: row.step.time_us, short="us"),
        TableColumn("share %", lambda row: f"{100 * row.step.share:.1f}", short="%"),
        TableColumn("sum %", lambda row: f"{100 * row.cumulative:.1f}"),
        TableColumn(
            "million MACs",
            lambda row: row.step.node.macs / 1e6 if row.step.node and row.step.node.macs else None,
            width=WIDE,
        ),
        TableColumn(
            "kB moved",
            lambda row: row.step.node.bytes_moved / 1e3 if row.step.node else None,
            width=WIDE,
        ),
        TableColumn("GOP/s", lambda row: row.step.gflops or None),
        TableColumn("GB/s", lambda row: row.step.gbytes or None),
        TableColumn(
            "inputs",
            lambda row: ", ".join(row.step.node.inputs) if row.step.node else None,
            left=True,
            width=blocks.PAGES,
        ),
        TableColumn(
            "output",
            lambda row: ", ".join(shape for _, shape in _list_outputs(row.step)) or None,
            left=True,
        ),
        TableColumn(
            "data",
            lambda row: next((kind for kind, _ in _list_outputs(row.step)), None),
            left=True,
            width=128,
        ),
        TableColumn(
            "kernel", lambda row: Span(row.step.kernel, "name"), left=True, width=blocks.PAGES
        ),
    )


@cache
def _list_type_columns() -> tuple[TableColumn[TypeTime], ...]:
    """Return the columns of the types of operators."""
    return (
        TableColumn("type", lambda row: Span(row.type, "name"), left=True),
        TableColumn("where", _show_place, left=True),
        TableColumn("count", lambda row: row.count),
        TableColumn("time us", lambda row: row.time_us),
        TableColumn("share %", lambda row: f"{100 * row.share:.1f}"),
        TableColumn("sum %", lambda row: f"{100 * row.cumulative:.1f}"),
        TableColumn("million MACs", lambda row: row.macs / 1e6 if row.macs else None),
        TableColumn("data", lambda row: row.data_type, left=True),
    )


def _list_outputs(step: OperatorTime) -> list[tuple[str, str]]:
    """Return data type and shape of each output."""
    outputs = (output.partition(" ") for output in (step.node.outputs if step.node else ()))
    return [(kind, shape) for kind, _, shape in outputs]


def print_profile(
    profile: Profile,
    console: Console | None = None,
    *,
    everything: bool = False,
    written: Sequence[Path] = (),
    diagnosis: Diagnosis | None = None,
    steps: Sequence[OperatorTime] | None = None,
) -> None:
    """Write the tables, the advice and the names of files that were ``written`` to the console.

    Without ``everything``, only the first ``steps`` in their order are shown,
    or the slowest ones if None.
    """
    if steps is None:
        rows = profile.operators if everything else profile.top(SHOWN)
        title = "Every step"
        if not everything:
            title = f"The {len(rows)} slowest of {len(profile.operators)} steps"
    else:
        rows = tuple(steps if everything else steps[:SHOWN])
        title = f"{len(rows)} of {len(profile.operators)} steps, as selected"
    shown: list[blocks.Block] = [
        *_describe_model(profile),
        blocks.Heading("By type"),
        table_of(_list_type_columns(), profile.by_type),
        blocks.Heading(title),
        _make_step_table(rows, everything and steps is None),
        *delegation_lines([("", delegation) for delegation in profile.delegations]),
        *_list_ethos_lines(profile.ethos),
        *(Labelled("Advice", sentence, "good") for sentence in profile.advice),
        *(Labelled("Note", note, "warn") for note in profile.notes),
        *(diagnosis_lines(diagnosis, everything) if diagnosis else ()),
        *(Labelled("Written", str(path)) for path in written),
    ]
    if not written:
        shown.append(blocks.next_command(f"advisor profile {profile.model} --html profile.html"))
    blocks.show(shown, console)


def delegation_lines(delegations: Sequence[tuple[str, Delegation]]) -> Iterator[blocks.Block]:
    """Yield a heading, and for each file and accelerator a sentence
    and why operators are not supported.

    Each delegation comes with the file's name, which is shown if there are several;
    nothing without any.
    """
    if not delegations:
        return
    lines: list[blocks.Block] = [
        blocks.Heading("Accelerators (computed from the file, not measured)")
    ]
    described: set[str] = set()
    several = len({name for name, _ in delegations}) > 1
    for file, delegation in delegations:
        unit = delegation.accelerator
        label = f"{file}, {unit.name}" if several else unit.name
        lines.append(
            Labelled(label, delegation.sentence, "warn" if delegation.objections else "good")
        )
        if unit.about and unit.name not in described:
            lines.append(Paragraph(f"  {unit.about}", "dim"))
        described.add(unit.name)
        lines += [
            Paragraph(f"  not supported: {reason}") for reason in count_unsupported(delegation)
        ]
    yield blocks.Group(lines)


def _list_ethos_lines(estimates: Sequence[EthosEstimate]) -> Iterator[blocks.Block]:
    """Yield a heading, and for each Ethos-U what its compiler makes of the file;
    nothing without one.
    """
    if not estimates:
        return
    lines: list[blocks.Block] = [
        blocks.Heading("Arm Ethos-U (estimated by its compiler, not measured)")
    ]
    for estimate in estimates:
        lines.append(
            Labelled(estimate.unit.name, estimate.sentence, "warn" if estimate.on_cpu else "good")
        )
        lines += [
            Paragraph(f"  not supported: {reason}") for reason in estimate.reasons[:REASONS_SHOWN]
        ]
    yield blocks.Group(lines)


def count_unsupported(delegation: Delegation) -> list[str]:
    """Return the most frequent reasons with their counts, and how many more there are."""
    reasons = []
    for reason, count in delegation.reasons.items():
        times = ""
        if count > 1:
            times = f" ({count}x)"
        reasons.append(f"{reason}{times}")
    more = len(reasons) - REASONS_SHOWN
    if more > 0:
        return [*reasons[:REASONS_SHOWN], f"and {plural(more, 'other reason')}"]
    return reasons


def _describe_model(profile: Profile) -> Iterator[blocks.Block]:
    """Yield the file with its time, its size, and how reliable the figures are."""
    threads = plural(profile.threads, "thread")
    whole = f"  {figure(profile.plain_us / 1e3)} ms an inference at {threads}"
    roof = profile.roofline
    peak = ""
    if roof:
        peak = (
            f"; one core reaches {roof.gflops:.0f} GFLOP/s in float32 and {roof.gbytes:.0f} GB/s"
        )
    entered = "XNNPACK not used"
    if profile.kernels != "builtin":
        entered = plural(profile.partitions, "XNNPACK partition")
    yield Paragraph((Span(Path(profile.model).name, "strong"), whole))
    yield Paragraph(
        f"{profile.parameters / 1e6:.2f} million parameters, {profile.macs / 1e6:.1f} million"
        f" MACs, activations {show_bytes(profile.arena_bytes)},"
        f" {plural(len(profile.by_type), 'operator type')}, {entered}"
    )
    yield Paragraph(_describe_quality(profile), "dim")
    yield Paragraph(f"{profile.runtime} on {profile.host}{peak}", "dim")


def _describe_quality(profile: Profile) -> str:
    """Return how reliable the figures are."""
    low, high = GOOD_COVERAGE
    good = "" if low <= profile.coverage <= high else f" (good is {low:.0%} to {high:.0%})"
    # Noise may make the inferences with the profiler the faster ones.
    slower = "no more than noise"
    if profile.overhead > 0:
        slower = f"{profile.overhead:.1%}"
    return (
        f"the operators make up {profile.coverage:.1%} of the time{good}; the profiler slows"
        f" an inference by {slower}; {plural(profile.runs, 'inference')},"
        f" {profile.rejected_runs} disturbed ones excluded"
    )


def _make_step_table(steps: Sequence[OperatorTime], complete: bool) -> blocks.DataTable:
    """Return a table of steps; ``complete`` says that these are all steps of a run,
    in their order.
    """
    cumulative = 0.0
    rows = []
    for step in steps:
        # The slowest steps alone are sorted, so their own sum is meant.
        cumulative = step.cumulative if complete else cumulative + step.share
        rows.append(StepRow(step, cumulative))
    return table_of(_list_step_columns(), rows, look="tall")


@dataclass(frozen=True)
class ProfileFiles:
    """The files that a profile is written to."""

    by_form: Mapping[str, Path]  # ``html`` and ``json``

    @classmethod
    def prepare_places(cls, folder: Path | None, paths: Mapping[str, Path]) -> ProfileFiles:
        """Return the file of each form, and make their folders before anything is measured,
        or raise a ``UsageError``.
        """
        wanted = dict[str, Path]()
        if folder is not None:
            wanted = {form: folder / name for form, name in FILES.items()}
        wanted |= paths
        for path in wanted.values():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _refuse_place(path, error.strerror) from error
            if path.is_dir() or not os.access(path.parent, os.W_OK):
                raise _refuse_place(
                    path, "it is a folder" if path.is_dir() else "its folder is not writable"
                )
        return cls(wanted)

    def write_profile(self, profile: Profile, diagnosis: Diagnosis | None = None) -> None:
        """Write each form; the diagnosis goes into the JSON and the page.
        An error is a ``UsageError``.
        """
        more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
        for form, path in self.by_form.items():
            document = ""
            if form == "json":
                document = json.dumps({**profile.to_json(), **more}, indent=1, allow_nan=False)
            try:
                path.write_text(document or render(profile, diagnosis), encoding="utf-8")
            except OSError as error:
                raise _refuse_place(path, error.strerror) from error


def _refuse_place(path: Path, why: str | None) -> UsageError:
    return UsageError(f"cannot write '{path}': {why}", "choose another place")


def render(profile: Profile, diagnosis: Diagnosis | None = None) -> str:
    """Return the page: the slowest operators, the roofline, every figure in tables;
    names from the file are escaped.
    """
    return render_page(
        "profile",
        styles=["report.css", "profile.css"],
        scripts=[plotly_script(), asset("profile.js")],
        profile=profile,
        name=Path(profile.model).name,
        facts=[blocks.Figures(_list_facts(profile))],
        types=[table_of(_list_type_columns(), profile.by_type)],
        operators=[_make_step_table(profile.operators, True)],
        quality=_describe_quality(profile),
        diagnosis=diagnosis_html(diagnosis) if diagnosis else None,
        reasons=count_unsupported,
        data=trust_content(json_for_script(_make_payload(profile))),
    )


def _list_facts(profile: Profile) -> tuple[blocks.Figure, ...]:
    """Return the key figures."""
    slowest = profile.top(1)[0]
    partitions = "off"
    if profile.kernels != "builtin":
        partitions = plural(profile.partitions, "partition")
    runs = f"median of {plural(profile.runs, 'inference')}, {plural(profile.threads, 'thread')}"
    low, high = GOOD_COVERAGE
    good = f"good is {100 * low:.0f} to {100 * high:.0f} %; profiler"
    parameters = f"{profile.parameters / 1e6:.2f} million parameters"
    return (
        blocks.Figure("An inference", f"{figure(profile.plain_us / 1e3)} ms", runs),
        blocks.Figure(
            "Operators / inference", f"{profile.coverage:.1%}", f"{good} {profile.overhead:+.1%}"
        ),
        blocks.Figure("MACs", f"{figure(profile.macs / 1e6)} million", parameters),
        blocks.Figure(
            "Activations", show_bytes(profile.arena_bytes), "peak, computed from their lifetimes"
        ),
        blocks.Figure("XNNPACK", partitions, f"slowest step: {slowest.type}, {slowest.share:.1%}"),
    )


def _make_payload(profile: Profile) -> dict[str, object]:
    """Return the data of the plots: the slowest operators, the roofline,
    and every operator below it.
    """
    roof = profile.roofline
    steps = []
    for row in profile.operators:
        if row.gflops and row.gbytes:
            steps.append(row)
    return {
        "bars": [
            _describe_point(row, label=f"{row.position} {row.type}") for row in profile.top(BARS)
        ],
        "points": [_describe_point(row, x=_compute_intensity(row), y=row.gflops) for row in steps],
        "roof": {"gflops": roof.gflops, "gbytes": roof.gbytes} if roof else None,
    }


def _compute_intensity(step: OperatorTime) -> float:
    """Return the arithmetic operations of a step for each byte that it moves;
    0 where they are not known.
    """
    node = step.node
    if node:
        return OPERATIONS_PER_MAC * node.macs / node.bytes_moved
    return 0.0


def _describe_point(row: OperatorTime, **place: Any) -> dict[str, object]:
    """Return what the plots show of an operator at a place."""
    output = ""
    if row.node and row.node.outputs:
        output = row.node.outputs[0]
    shown = {
        "us": row.time_us,
        "share": row.share,
        "type": row.type,
        "where": row.where,
        "step": row.position,
    }
    return {**place, **shown, "kernel": row.kernel, "output": output}
