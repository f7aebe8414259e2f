"""Tables of results: markdown for people, CSV for machines, both with the machine that measured."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from advisor.benchmark import host

RESULTS = Path(__file__).parent / "results"

Row = Sequence[object]


def keep(name: str, title: str, header: Sequence[str], rows: Sequence[Row], remarks: Sequence[str] = ()) -> str:
    """Write ``results/NAME.md`` and ``results/NAME.csv`` and return the markdown."""
    RESULTS.mkdir(exist_ok=True)
    lines = [f"# {title}", "", f"{host.describe()}; {datetime.now(UTC):%Y-%m-%d}.", ""]
    lines += [_line(header), _line(["---"] * len(header)), *(_line(row) for row in rows)]
    lines += ["", *(f"- {remark}" for remark in remarks)] if remarks else []
    text = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return text


def _line(cells: Row) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
