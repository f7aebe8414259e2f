"""The answer of ``advisor profile`` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.units import plural, show_bytes
from advisor.measurement.accelerators.delegation import Delegation
from advisor.measurement.microcontrollers import EthosEstimate
from advisor.measurement.operators.profile_values import OperatorTime, Profile, TypeTime
from advisor.reporting import text
from advisor.reporting.console import WIDE, TableColumn, columns, default_console, line, next_command, table, write
from advisor.reporting.profile.diagnosis import diagnosis_lines
from advisor.reporting.selection import Rows, rows_of
from advisor.reporting.text import figure

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
TYPES = columns(
    "type", "where", "count", "time us", "share %", "sum %", "million MACs", "data", left=("type", "where", "data")
)
OPERATORS = (
    TableColumn("step"),
    TableColumn("type", left=True),
    TableColumn("where", left=True),
    TableColumn("time us", short="us"),
    TableColumn("share %", short="%"),
    TableColumn("sum %"),
    TableColumn("million MACs", width=WIDE),
    TableColumn("kB moved", width=WIDE),
    TableColumn("GOP/s"),
    TableColumn("GB/s"),
    TableColumn("output", left=True),
    TableColumn("data", left=True, width=128),
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
    console = console or default_console()
    if steps is None:
        rows = profile.operators if everything else profile.top(SHOWN)
        title = "Every step" if everything else f"The {len(rows)} slowest of {len(profile.operators)} steps"
    else:
        rows = tuple(steps if everything else steps[:SHOWN])
        title = f"{len(rows)} of {len(profile.operators)} steps, as selected"
    parts: list[RenderableType] = [
        *_head(profile),
        Text(),
        Text("By type", style="bold"),
        table(TYPES, map(_type, profile.by_type), console),
        Text(),
        Text(title, style="bold"),
        table(OPERATORS, _operators(rows, everything and steps is None), console),
        *(() if profile.delegations or profile.ethos else (Text(),)),
        *delegation_lines([("", delegation) for delegation in profile.delegations]),
        *ethos_lines(profile.ethos),
        *((Text(),) if profile.delegations or profile.ethos else ()),
        *(line("Advice", sentence, "green") for sentence in profile.advice),
        *(line("Note", note, "yellow") for note in profile.notes),
        *(diagnosis_lines(diagnosis, console, everything) if diagnosis else ()),
        *(line("Written", str(path)) for path in written),
    ]
    if not written:
        parts.append(next_command(f"advisor profile {profile.model} --html profile.html"))
    write(parts, console)


def delegation_lines(delegations: Sequence[tuple[str, Delegation]]) -> Iterator[Text]:
    """Return a heading, and for each file and accelerator a sentence and why operators are not supported.

    Args:
        delegations: each with the file's name, which is shown if there are several; empty returns nothing.
    """
    if not delegations:
        return
    yield Text()
    yield Text("Accelerators (computed from the file, not measured)", style="bold")
    described: set[str] = set()
    several = len({name for name, _ in delegations}) > 1
    for name, delegation in delegations:
        label = f"{name}, {delegation.accelerator.name}" if several else delegation.accelerator.name
        yield line(text.plain(label), delegation.sentence, "yellow" if delegation.objections else "green")
        if delegation.accelerator.about and delegation.accelerator.name not in described:
            yield Text(f"  {text.plain(delegation.accelerator.about)}", style="dim")
        described.add(delegation.accelerator.name)
        yield from (Text(f"  not supported: {text.plain(reason)}") for reason in unsupported(delegation))


def ethos_lines(found: Sequence[EthosEstimate]) -> Iterator[Text]:
    """Return a heading, and for each Ethos-U what its compiler makes of the file; nothing without one."""
    if not found:
        return
    yield Text()
    yield Text("Arm Ethos-U (estimated by its compiler, not measured)", style="bold")
    for each in found:
        yield line(text.plain(each.unit.name), each.sentence, "yellow" if each.on_cpu else "green")
        yield from (Text(f"  not supported: {text.plain(reason)}") for reason in each.reasons[:REASONS_SHOWN])


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


def _head(profile: Profile) -> Iterator[Text]:
    name = text.plain(Path(profile.model).name)
    whole = f"{figure(profile.plain_us / 1e3)} ms a run at {plural(profile.threads, 'thread')}"
    yield Text.assemble((name, "bold"), f"  {whole}")
    yield Text(text.plain(totals(profile)))
    yield Text(text.plain(quality(profile)), style="dim")
    roof = profile.roofline
    peak = f"; one core reaches {roof.gflops:.0f} GFLOP/s in float32 and {roof.gbytes:.0f} GB/s" if roof else ""
    yield Text(text.plain(f"{profile.runtime} on {profile.host}{peak}"), style="dim")


def _type(row: TypeTime) -> list[str | Text]:
    shares = [f"{100 * row.share:.1f}", f"{100 * row.cumulative:.1f}"]
    macs = figure(row.macs / 1e6 if row.macs else None)
    return [row.type, _where(row.where), str(row.count), figure(row.time_us), *shares, macs, row.data_type]


def _operators(rows: Sequence[OperatorTime], in_order: bool) -> Iterator[list[str | Text]]:
    cumulative = 0.0
    for row in rows:
        cumulative = row.cumulative if in_order else cumulative + row.share
        node = row.node
        data, _, shape = (node.outputs[0] if node and node.outputs else "").partition(" ")
        yield [
            str(row.position),
            row.type,
            _where(row.where),
            figure(row.time_us),
            f"{100 * row.share:.1f}",
            f"{100 * cumulative:.1f}",
            figure(node.macs / 1e6 if node and node.macs else None),
            figure(node.bytes_moved / 1e3 if node else None),
            figure(row.gflops or None),
            figure(row.gbytes or None),
            shape or text.MISSING,
            data or text.MISSING,
        ]


def _where(name: str) -> Text:
    return Text(name, style="yellow" if name == "builtin" else "")
