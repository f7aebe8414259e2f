"""The answer of ``advisor profile`` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.units import show_bytes
from advisor.measurement.operators.profile_values import OperatorTime, Profile, TypeTime
from advisor.reporting import text
from advisor.reporting.console import WIDE, Column, default_console, figure, line, table, write
from advisor.reporting.profile import delegation_lines, diagnosis_lines

SHOWN = 10
GOOD_COVERAGE = (0.95, 1.02)
TYPES = (
    Column("type", left=True),
    Column("where", left=True),
    Column("count"),
    Column("time us"),
    Column("share %"),
    Column("sum %"),
    Column("million MACs"),
    Column("data", left=True),
)
OPERATORS = (
    Column("step"),
    Column("type", left=True),
    Column("where", left=True),
    Column("time us", short="us"),
    Column("share %", short="%"),
    Column("sum %"),
    Column("million MACs", width=WIDE),
    Column("kB moved", width=WIDE),
    Column("GOP/s"),
    Column("GB/s"),
    Column("output", left=True),
    Column("data", left=True, width=128),
)


def print_profile(
    profile: Profile,
    console: Console | None = None,
    *,
    everything: bool = False,
    written: Sequence[Path] = (),
    diagnosis: Diagnosis | None = None,
) -> None:
    """Write the tables and the advice to ``console``, or to standard output.

    Args:
        profile: what was found.
        console: where to.
        everything: every operator in the order of execution, not only the slowest.
        written: files to name at the end.
        diagnosis: how it differs from its float origin.
    """
    console = console or default_console()
    more = diagnosis_lines.lines(diagnosis, console, everything) if diagnosis else ()
    write([*parts(profile, console, everything), *more, *_files(profile, written)], console)


def parts(profile: Profile, console: Console, everything: bool = False) -> list[RenderableType]:
    """Return the output for the console's width."""
    rows = profile.operators if everything else profile.top(SHOWN)
    title = "Every step" if everything else f"The {len(rows)} slowest of {len(profile.operators)} steps"
    return [
        *_head(profile),
        Text(),
        Text("By type", style="bold"),
        table(TYPES, map(_type, profile.by_type), console),
        Text(),
        Text(title, style="bold"),
        table(OPERATORS, _operators(rows, everything), console),
        *(() if profile.delegations else (Text(),)),
        *delegation_lines.lines([("", delegation) for delegation in profile.delegations]),
        *((Text(),) if profile.delegations else ()),
        *(line("Advice", sentence, "green") for sentence in profile.advice),
        *(line("Note", note, "yellow") for note in profile.notes),
    ]


def totals(profile: Profile) -> str:
    """Return parameters, MACs, activations and partitions as a sentence."""
    builtin = profile.kernels == "builtin"
    entered = "XNNPACK not used" if builtin else text.plural(profile.partitions, "XNNPACK partition")
    return (
        f"{profile.parameters / 1e6:.2f} million parameters, {profile.macs / 1e6:.1f} million MACs, "
        f"activations {show_bytes(profile.arena_bytes)}, {text.plural(len(profile.by_type), 'operator type')}, "
        f"{entered}"
    )


def quality(profile: Profile) -> str:
    """Return how reliable the figures are."""
    low, high = GOOD_COVERAGE
    good = "" if low <= profile.coverage <= high else f" (good is {low:.0%} to {high:.0%})"
    return (
        f"the operators make up {profile.coverage:.1%} of the run time{good}; the profiler slows a run by "
        f"{profile.overhead:+.1%}; {text.plural(profile.runs, 'run')}, {profile.rejected_runs} disturbed runs excluded"
    )


def _head(profile: Profile) -> Iterator[Text]:
    name = text.plain(Path(profile.model).name)
    whole = f"{figure(profile.plain_us / 1e3)} ms a run at {text.threads(profile.threads)}"
    yield Text.assemble((name, "bold"), f"  {whole}")
    yield Text(text.plain(totals(profile)))
    yield Text(text.plain(quality(profile)), style="dim")
    roof = profile.roofline
    peak = f"; one core reaches {roof.gflops:.0f} GFLOP/s in float32 and {roof.gbytes:.0f} GB/s" if roof else ""
    yield Text(text.plain(f"{profile.runtime} on {profile.host}{peak}"), style="dim")


def _type(row: TypeTime) -> list[str | Text]:
    shares = [_percent(row.share), _percent(row.cumulative)]
    macs = figure(row.macs / 1e6) if row.macs else text.MISSING
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
            _percent(row.share),
            _percent(cumulative),
            figure(node.macs / 1e6) if node and node.macs else text.MISSING,
            figure(node.bytes_moved / 1e3) if node else text.MISSING,
            figure(row.gflops) if row.gflops else text.MISSING,
            figure(row.gbytes) if row.gbytes else text.MISSING,
            shape or text.MISSING,
            data or text.MISSING,
        ]


def _where(place: str) -> Text:
    return Text(place, style="yellow" if place == "builtin" else "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _files(profile: Profile, written: Sequence[Path]) -> Iterator[Text]:
    for path in written:
        yield line("Written", str(path))
    if not written:
        command = f"advisor profile {profile.model} --html profile.html"
        yield Text.assemble(("Next: ", "bold"), (text.plain(command), "cyan"))
