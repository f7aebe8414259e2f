"""Tables of results: markdown for people, CSV for machines, both with the machine that measured."""

import csv
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from advisor.core import Interval
from advisor.measurement import host

RESULTS = Path(__file__).parent / "results"

Row = Sequence[object]


def keep(name: str, title: str, header: Sequence[str], rows: Sequence[Row], remarks: Sequence[str] = ()) -> str:
    """Write ``results/NAME.md`` and ``results/NAME.csv`` and return the markdown."""
    RESULTS.mkdir(exist_ok=True)
    lines = [f"# {title}", "", f"{host.describe()}; {datetime.now(UTC):%Y-%m-%d}.", "", markdown(header, rows)]
    lines += ["", *(f"- {remark}" for remark in remarks)] if remarks else []
    text = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return text


def markdown(header: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    return "\n".join(_line(cells) for cells in (header, ["---"] * len(header), *rows))


def percent(share: Interval) -> str:
    """Return a share with its interval in %."""
    return f"{100 * share.value:.1f} ({100 * share.low:.1f}\u2013{100 * share.high:.1f})"


def _line(cells: Row) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def kept_of_others(name: str, subjects: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Return what a table has of others: rows whose first cell, remarks whose first word (NAME:) is no subject now.

    A table that takes long is measured a few subjects at a time; what it says of the others stays.
    """
    table, page = RESULTS / f"{name}.csv", RESULTS / f"{name}.md"
    if not table.is_file() or not page.is_file():
        return [], []
    with table.open(newline="", encoding="utf-8") as file:
        rows: list[Row] = [row for row in list(csv.reader(file))[1:] if row and row[0] not in subjects]
    said = [line[2:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    return rows, [remark for remark in said if remark.split(":")[0] in {str(row[0]) for row in rows}]
