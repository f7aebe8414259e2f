"""Read a manifest: a table with images, their labels and, if wanted, a split and groups."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.datasets.dataset import Rejected
from advisor.datasets.layouts.layout import PARTS, Entry, Listing
from advisor.datasets.layouts.tables import CSV, PARQUET, Row, columns_of, rows_of

SUFFIXES = CSV | PARQUET
NAMES = {
    "path": ("path", "file", "filename", "image"),
    "label": ("label", "class"),
    "split": ("split", "part", "subset"),
    "group": ("group",),
}
"""The columns and their accepted names, in any case."""

_HINT = "columns: path, label and, optionally, split (train, validation, test) and group; paths are relative to it"


def list_manifest(path: Path) -> Listing:
    """List the files of a CSV or Parquet table with the columns path and label, and optionally split and group.

    Rows without a label and repeated rows are rejected.
    """
    columns = _columns(path)
    entries: list[Entry] = []
    rejected: list[Rejected] = []
    seen: set[tuple[str, str]] = set()
    for number, row in rows_of(path, list(columns.values())):
        entry = _entry(path, number, {name: row[column] for name, column in columns.items()})
        fault = "no label" if not entry.label.strip() else "listed twice" if _key(entry) in seen else ""
        if fault:
            rejected.append(Rejected(entry.path, f"{fault} (row {number} of '{path.name}')"))
        else:
            seen.add(_key(entry))
            entries.append(entry)
    _require_rows(path, entries)
    return Listing(path.parent, entries, (), rejected)


def _columns(path: Path) -> dict[str, str]:
    found = columns_of(path)
    plain = {name.strip().casefold(): name for name in found}
    columns = {name: plain[alias] for name, aliases in NAMES.items() for alias in reversed(aliases) if alias in plain}
    for name in ("path", "label"):
        if name not in columns:
            names = ", ".join(f"'{column}'" for column in found[:12]) or "nothing"
            raise UsageError(f"--data: '{path}' has no column '{name}'{nearest(name, plain)}, but {names}", _HINT)
    return columns


def _entry(manifest: Path, number: int, row: Row) -> Entry:
    name, written = row["path"].strip(), row.get("split", "").strip()
    if not name or "\0" in name:
        raise UsageError(f"--data: row {number} of '{manifest}' names no image", _HINT)
    if written and written.casefold() not in PARTS:
        raise UsageError(
            f"--data: row {number} of '{manifest}' has the split '{written}'{nearest(written.casefold(), PARTS)}",
            "write train, validation or test, or leave it empty",
        )
    path = Path(os.path.normpath(manifest.parent / name))
    return Entry(path, row["label"], PARTS.get(written.casefold(), ""), row.get("group", "").strip())


def _key(entry: Entry) -> tuple[str, str]:
    return str(entry.path), entry.label


def _require_rows(path: Path, entries: Sequence[Entry]) -> None:
    labels = {entry.label for entry in entries}
    if not entries:
        raise UsageError(f"--data: '{path}' names no image with a label", _HINT)
    if len(labels) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{labels.pop()}'", "add images of a second class")
