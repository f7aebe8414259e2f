"""The answer of ``advisor benchmark --device`` and ``--accelerator gpu`` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from advisor.core.quantity import Provenance
from advisor.core.units import plural
from advisor.measurement.on_device.findings import DeviceBenchmark, DeviceRow
from advisor.reporting import text
from advisor.reporting.console import Column, default_console, line, table, write
from advisor.reporting.profile.profile_table import delegation_lines
from advisor.reporting.text import figure, span

COLUMNS = (
    Column("file", left=True),
    Column("thr."),
    Column("ms"),
    Column("interval ms"),
    Column("first ms"),
    Column("load ms"),
    Column("memory MB"),
    Column("arena MB"),
    Column("", left=True),
)
STYLES = {"failed": "bold red", "throttled": "bold yellow", "contended": "yellow", "unstable": "yellow"}


def print_device_benchmark(found: DeviceBenchmark, console: Console | None = None) -> None:
    """Write the table and sentences to ``console``, or to standard output."""
    console = console or default_console()
    parts: list[RenderableType] = [
        Text.assemble((text.plain(f"{found.device}:{found.target}"), "bold"), f"  {_how(found)}"),
        Text(),
        table(COLUMNS, map(_row, found.rows), console),
        Text(),
        *_remarks(found),
        *delegation_lines([(Path(model).name, delegation) for model, delegation in found.delegations]),
    ]
    write(parts, console)


def _how(found: DeviceBenchmark) -> str:
    """Return how the figures were obtained."""
    if not found.connection:
        return "predicted, not measured: 80 % intervals, from measurements of other models on this and similar devices"
    return text.plain(f"measured over {found.connection}, effort {found.effort}")


def _row(row: DeviceRow) -> list[str | Text]:
    latency, status = row.latency, row.status
    interval = text.MISSING
    if latency and latency.low is not None and latency.high is not None:
        interval = span(latency.low, latency.high)
    return [
        Path(row.model).name,
        str(row.threads) if row.threads else text.MISSING,
        figure(latency.value if latency else None),
        interval,
        figure(row.first_ms),
        figure(row.load_ms),
        figure(None if row.memory_bytes is None else row.memory_bytes / 1e6),
        figure(row.arena_bytes / 1e6),
        Text(status, style=STYLES.get(status, "cyan" if status == Provenance.PREDICTED else "")),
    ]


def _remarks(found: DeviceBenchmark) -> Iterator[Text]:
    for row in found.rows:
        name = Path(row.model).name
        if row.failure:
            yield line("Failed", row.failure, "red")
        elif row.agreement:
            yield line("Outputs", f"{name}: {_agreement(row)}", "green" if row.agreement.alike else "red")
        elif row.reason:
            yield line(
                "Note", f"{name}, {plural(row.threads, 'thread')}: {row.reason}", "yellow" if row.throttled else ""
            )
    for ratio in found.ratios:
        differs = "" if ratio.differs else ", which is not a significant difference"
        first, other = Path(ratio.reference).name, Path(ratio.model).name
        yield line("Ratio", f"{other} takes {ratio.ratio:.3f} times {first} [{span(ratio.low, ratio.high)}]{differs}")
    yield from (line("Note", note, "yellow") for note in found.notes)


def _agreement(row: DeviceRow) -> str:
    """Return how far the outputs differ from those of the CPU."""
    found = row.agreement
    if found is None:
        return ""
    answer = "the same class" if found.same_answer else "ANOTHER class"
    whole = "fully delegated" if found.whole else "not fully delegated"
    verdict = "agree with" if found.alike else "DIFFER from"
    distance = f"largest difference {found.largest_difference:.3g} of a range of {found.output_range:.3g}"
    return f"{verdict} the CPU's ({distance}, {answer}); {whole}"
