"""The answer of ``advisor profile``: on the terminal, and the files that it writes; the page loads nothing."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.errors import UsageError
from advisor.core.units import plural, show_bytes
from advisor.measurement.delegation import Delegation
from advisor.measurement.microcontrollers import EthosEstimate
from advisor.measurement.operators.profile_values import OperatorTime, Profile, TypeTime
from advisor.reporting import blocks, text
from advisor.reporting.console import WIDE, show
from advisor.reporting.diagnosis import diagnosis_html, diagnosis_lines
from advisor.reporting.selection import Rows, rows_of
from advisor.reporting.templating import asset, json_for_script, plotly_script, render_page, trusted
from advisor.reporting.text import figure

FILES = {"html": "profile.html", "json": "profile.json"}
"""Forms of a profile, with the names of their files in a folder."""

BARS = 20

STEPS: Rows[OperatorTime] = rows_of(
    {
        "position": "position", "type": "type", "where": "where", "time_us": "time_us", "time_share": "share",
        "macs": "node.macs", "moved_bytes": "node.bytes_moved", "gflops": "gflops", "output": "node.outputs.0",
    }
)  # fmt: skip
"""Steps of a run."""

SHOWN = 10
REASONS_SHOWN = 6
GOOD_COVERAGE = (0.95, 1.02)
TYPES = blocks.columns(
    "type", "where", "count", "time us", "share %", "sum %", "million MACs", "data", left=("type", "where", "data")
)
OPERATORS = (
    blocks.TableColumn("step"),
    blocks.TableColumn("type", left=True, head=True),
    blocks.TableColumn("where", left=True),
    blocks.TableColumn("time us", short="us"),
    blocks.TableColumn("share %", short="%"),
    blocks.TableColumn("sum %"),
    blocks.TableColumn("million MACs", width=WIDE),
    blocks.TableColumn("kB moved", width=WIDE),
    blocks.TableColumn("GOP/s"),
    blocks.TableColumn("GB/s"),
    blocks.TableColumn("inputs", left=True, width=blocks.PAGES),
    blocks.TableColumn("output", left=True),
    blocks.TableColumn("data", left=True, width=128),
    blocks.TableColumn("kernel", left=True, width=blocks.PAGES),
)


def print_profile(
    profile: Profile,
    console: Console | None = None,
    *,
    everything: bool = False,
    written: Sequence[Path] = (),
    diagnosis: Diagnosis | None = None,
    steps: Sequence[OperatorTime] | None = None,
) -> None:
    """Write the tables and the advice to ``console``, or to standard output.

    Args:
        profile: what was found.
        console: where to.
        everything: every operator in the order of execution, not only the slowest.
        written: files to name at the end.
        diagnosis: how it differs from its float origin.
        steps: the steps to show, in their order, of which only the first are shown without ``everything``; the slowest
            ones if None.
    """
    if steps is None:
        rows = profile.operators if everything else profile.top(SHOWN)
        title = "Every step" if everything else f"The {len(rows)} slowest of {len(profile.operators)} steps"
    else:
        rows = tuple(steps if everything else steps[:SHOWN])
        title = f"{len(rows)} of {len(profile.operators)} steps, as selected"
    named = [("", delegation) for delegation in profile.delegations]
    shown: list[blocks.Block] = [
        *_head(profile),
        blocks.Heading("By type"),
        types_table(profile),
        blocks.Heading(title),
        operators_table(rows, everything and steps is None),
        *delegation_lines(named),
        *ethos_lines(profile.ethos),
        *(blocks.Labelled("Advice", sentence, "good") for sentence in profile.advice),
        *(blocks.Labelled("Note", note, "warn") for note in profile.notes),
        *(diagnosis_lines(diagnosis, everything) if diagnosis else ()),
        *(blocks.Labelled("Written", str(path)) for path in written),
    ]
    if not written:
        shown.append(blocks.next_command(f"advisor profile {profile.model} --html profile.html"))
    show(shown, console)


def delegation_lines(delegations: Sequence[tuple[str, Delegation]]) -> Iterator[blocks.Block]:
    """Return a heading, and for each file and accelerator a sentence and why operators are not supported.

    Args:
        delegations: each with the file's name, which is shown if there are several; empty returns nothing.
    """
    if not delegations:
        return
    lines: list[blocks.Block] = [blocks.Heading("Accelerators (computed from the file, not measured)")]
    described: set[str] = set()
    several = len({name for name, _ in delegations}) > 1
    for file, delegation in delegations:
        label = f"{file}, {delegation.accelerator.name}" if several else delegation.accelerator.name
        lines.append(blocks.Labelled(label, delegation.sentence, "warn" if delegation.objections else "good"))
        if delegation.accelerator.about and delegation.accelerator.name not in described:
            lines.append(blocks.Paragraph(f"  {delegation.accelerator.about}", "dim"))
        described.add(delegation.accelerator.name)
        lines += [blocks.Paragraph(f"  not supported: {reason}") for reason in unsupported(delegation)]
    yield blocks.Group(lines)


def ethos_lines(found: Sequence[EthosEstimate]) -> Iterator[blocks.Block]:
    """Return a heading, and for each Ethos-U what its compiler makes of the file; nothing without one."""
    if not found:
        return
    lines: list[blocks.Block] = [blocks.Heading("Arm Ethos-U (estimated by its compiler, not measured)")]
    for each in found:
        lines.append(blocks.Labelled(each.unit.name, each.sentence, "warn" if each.on_cpu else "good"))
        lines += [blocks.Paragraph(f"  not supported: {reason}") for reason in each.reasons[:REASONS_SHOWN]]
    yield blocks.Group(lines)


def unsupported(delegation: Delegation) -> list[str]:
    """Return the most frequent reasons with their counts, and how many more there are."""
    found = [f"{reason} ({count}x)" if count > 1 else reason for reason, count in delegation.reasons.items()]
    more = len(found) - REASONS_SHOWN
    return found[:REASONS_SHOWN] + ([f"and {plural(more, 'other reason')}"] if more > 0 else [])


def totals(profile: Profile) -> str:
    """Return parameters, MACs, activations and partitions as a sentence."""
    builtin = profile.kernels == "builtin"
    entered = "XNNPACK not used" if builtin else plural(profile.partitions, "XNNPACK partition")
    return (
        f"{profile.parameters / 1e6:.2f} million parameters, {profile.macs / 1e6:.1f} million MACs, "
        f"activations {show_bytes(profile.arena_bytes)}, {plural(len(profile.by_type), 'operator type')}, "
        f"{entered}"
    )


def quality(profile: Profile) -> str:
    """Return how reliable the figures are."""
    low, high = GOOD_COVERAGE
    good = "" if low <= profile.coverage <= high else f" (good is {low:.0%} to {high:.0%})"
    return (
        f"the operators make up {profile.coverage:.1%} of the run time{good}; the profiler slows a run by "
        f"{profile.overhead:+.1%}; {plural(profile.runs, 'run')}, {profile.rejected_runs} disturbed runs excluded"
    )


def _head(profile: Profile) -> Iterator[blocks.Block]:
    whole = f"  {figure(profile.plain_us / 1e3)} ms a run at {plural(profile.threads, 'thread')}"
    roof = profile.roofline
    peak = f"; one core reaches {roof.gflops:.0f} GFLOP/s in float32 and {roof.gbytes:.0f} GB/s" if roof else ""
    yield blocks.Paragraph((blocks.Span(Path(profile.model).name, "strong"), whole))
    yield blocks.Paragraph(totals(profile))
    yield blocks.Paragraph(quality(profile), "dim")
    yield blocks.Paragraph(f"{profile.runtime} on {profile.host}{peak}", "dim")


def types_table(profile: Profile) -> blocks.DataTable:
    """Return the time of each type of operator."""
    return blocks.DataTable(TYPES, list(map(_type, profile.by_type)))


def _type(row: TypeTime) -> list[blocks.Words]:
    shares = [f"{100 * row.share:.1f}", f"{100 * row.cumulative:.1f}"]
    macs = figure(row.macs / 1e6 if row.macs else None)
    return [
        blocks.Span(row.type, "name"),
        _where(row.where),
        str(row.count),
        figure(row.time_us),
        *shares,
        macs,
        row.data_type,
    ]


def operators_table(rows: Sequence[OperatorTime], in_order: bool) -> blocks.DataTable:
    """Return steps of a run; ``in_order`` says that the rows are all of them."""
    cumulative, cells = 0.0, []
    for row in rows:
        cumulative = row.cumulative if in_order else cumulative + row.share
        node = row.node
        outputs = [each.partition(" ") for each in node.outputs] if node else []
        cells.append(
            (
                str(row.position),
                blocks.Span(row.type, "name"),
                _where(row.where),
                figure(row.time_us),
                f"{100 * row.share:.1f}",
                f"{100 * cumulative:.1f}",
                figure(node.macs / 1e6 if node and node.macs else None),
                figure(node.bytes_moved / 1e3 if node else None),
                figure(row.gflops or None),
                figure(row.gbytes or None),
                ", ".join(node.inputs) if node else text.MISSING,
                ", ".join(shape for _, _, shape in outputs) or text.MISSING,
                outputs[0][0] if outputs else text.MISSING,
                blocks.Span(row.kernel, "name"),
            )
        )
    return blocks.DataTable(OPERATORS, cells, look="tall")


def _where(place: str) -> blocks.Words:
    return blocks.Span(place, "warn") if place == "builtin" else place


def requested_files(folder: Path | None, paths: Mapping[str, Path]) -> dict[str, Path]:
    """Return the file of each requested form, and make their folders before anything is measured.

    Args:
        folder: takes all forms, except those with a path of their own; None for none.
        paths: path of single forms.

    Raises:
        UsageError: a file cannot be written.
    """
    everything = {form: folder / name for form, name in FILES.items()} if folder else {}
    wanted = {**everything, **paths}
    for path in wanted.values():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write '{path}': {error.strerror}", "choose another place") from error
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            reason = "it is a folder" if path.is_dir() else "its folder is not writable"
            raise UsageError(f"cannot write '{path}': {reason}", "choose another place")
    return wanted


def write_files(profile: Profile, wanted: Mapping[str, Path], diagnosis: Diagnosis | None = None) -> None:
    """Write the requested forms; the diagnosis goes into the JSON and the page.

    Raises:
        UsageError: a file cannot be written.
    """
    for form, path in wanted.items():
        try:
            path.write_text(_content(form, profile, diagnosis), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write '{path}': {error.strerror}", "choose another place") from error


def _content(form: str, profile: Profile, diagnosis: Diagnosis | None) -> str:
    if form == "html":
        return render(profile, diagnosis)
    more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
    return json.dumps({**profile.to_json(), **more}, indent=1, allow_nan=False)


def render(profile: Profile, diagnosis: Diagnosis | None = None) -> str:
    """Return the page: the slowest operators, the roofline, every figure in tables; names from the file are escaped.

    Args:
        profile: what was found.
        diagnosis: how the file differs from its float origin, None where it was not requested.
    """
    return render_page(
        "profile",
        styles=["report.css", "profile.css"],
        scripts=[plotly_script(), asset("profile.js")],
        profile=profile,
        name=Path(profile.model).name,
        facts=[blocks.Figures([blocks.Figure(*each) for each in facts(profile)])],
        types=[types_table(profile)],
        operators=[operators_table(profile.operators, True)],
        quality=quality(profile),
        diagnosis=diagnosis_html(diagnosis) if diagnosis else None,
        reasons=unsupported,
        data=trusted(json_for_script(payload(profile))),
    )


def payload(profile: Profile) -> dict[str, object]:
    """Return the data of the plots: the slowest operators, the roofline, and every operator below it."""
    roof = profile.roofline
    return {
        "bars": [_bar(row) for row in profile.top(BARS)],
        "points": [_point(row) for row in profile.operators if row.gflops and row.gbytes],
        "roof": {"gflops": roof.gflops, "gbytes": roof.gbytes} if roof else None,
    }


def facts(profile: Profile) -> tuple[tuple[str, str, str], ...]:
    """Return label, figure and remark of the key figures."""
    slowest = profile.top(1)[0]
    partitions = "off" if profile.kernels == "builtin" else plural(profile.partitions, "partition")
    return (
        (
            "A run",
            f"{figure(profile.plain_us / 1e3)} ms",
            f"median of {plural(profile.runs, 'run')}, {plural(profile.threads, 'thread')}",
        ),
        ("Operators / run", f"{profile.coverage:.1%}", f"good is 95 to 102 %; profiler {profile.overhead:+.1%}"),
        ("MACs", f"{figure(profile.macs / 1e6)} million", f"{profile.parameters / 1e6:.2f} million parameters"),
        ("Activations", show_bytes(profile.arena_bytes), "peak, computed from their lifetimes"),
        ("XNNPACK", partitions, f"slowest step: {slowest.type}, {slowest.share:.1%}"),
    )


def _bar(row: OperatorTime) -> dict[str, object]:
    return {"label": f"{row.position} {row.type}", "us": row.time_us, "share": row.share, **_common(row)}


def _point(row: OperatorTime) -> dict[str, object]:
    operations = 2 * row.node.macs if row.node else 0
    moved = row.node.bytes_moved if row.node else 1
    return {"x": operations / moved, "y": row.gflops, "us": row.time_us, "share": row.share, **_common(row)}


def _common(row: OperatorTime) -> dict[str, object]:
    output = row.node.outputs[0] if row.node and row.node.outputs else ""
    return {"type": row.type, "where": row.where, "step": row.position, "kernel": row.kernel, "output": output}
