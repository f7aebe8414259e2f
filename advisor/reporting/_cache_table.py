"""The cache as tables: by kind and by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from advisor.core import show_bytes
from advisor.reporting._blocks import Labelled, TableColumn, show, table_of
from advisor.store import CacheContents, CacheEntry, CacheUse, sum_bytes


@dataclass(frozen=True)
class _Line:
    """Entries that belong together."""

    name: str
    state: str
    entries: Sequence[CacheEntry]
    alone: Sequence[CacheEntry] = ()

    @property
    def used(self) -> str:
        """When one of them was last used."""
        if not self.entries:
            return ""
        last = max(entry.used_s for entry in self.entries)
        return datetime.fromtimestamp(last, UTC).astimezone().isoformat(" ", "minutes")[:16]


@cache
def _list_kind_columns() -> tuple[TableColumn[_Line], ...]:
    """Return the columns of the kinds of results."""
    return (
        TableColumn[_Line]("kind", lambda line: line.name, left=True, whole=True),
        TableColumn[_Line]("entries", lambda line: str(len(line.entries))),
        TableColumn[_Line]("size", lambda line: show_bytes(sum_bytes(line.entries))),
        TableColumn[_Line]("last used", lambda line: line.used, left=True),
    )


@cache
def _list_run_columns() -> tuple[TableColumn[_Line], ...]:
    """Return the columns of the runs that use results."""
    return (
        TableColumn[_Line]("run", lambda line: line.name, left=True, whole=True),
        TableColumn[_Line]("state", lambda line: line.state, left=True),
        TableColumn[_Line]("uses", lambda line: show_bytes(sum_bytes(line.entries))),
        TableColumn[_Line]("alone", lambda line: show_bytes(sum_bytes(line.alone))),
        TableColumn[_Line]("last used", lambda line: line.used, left=True),
    )


def _kinds(contents: CacheContents) -> list[_Line]:
    return [_Line(kind, "", entries) for kind, entries in contents.by_kind.items()]


def _runs(contents: CacheContents) -> list[_Line]:
    uses = sorted((use for use in contents.uses if use.run), key=lambda use: use.run)
    return [_Line(use.run, _state(use), contents.used_by(use), contents.used_only_by(use)) for use in uses]


def _state(use: CacheUse) -> str:
    words = {"running": use.live, "kept": use.kept, "gone": not Path(use.run).is_dir()}
    return ", ".join(word for word, holds in words.items() if holds)


def print_cache(found: CacheContents) -> None:
    """Print the cache."""
    share = f"{show_bytes(found.size_bytes)} of {show_bytes(found.limit_bytes)} in {found.root}"
    runs = _runs(found)
    show(
        [
            Labelled("Cache", share),
            table_of(_list_kind_columns(), _kinds(found)),
            *([table_of(_list_run_columns(), runs)] if runs else []),
        ]
    )


def cache_json(found: CacheContents) -> Mapping[str, object]:
    """Return the cache as a JSON object; sizes are bytes."""

    def line(row: _Line) -> dict[str, object]:
        return {"entries": len(row.entries), "size_bytes": sum_bytes(row.entries), "last_used": row.used}

    runs = []
    for run in _runs(found):
        runs.append({"run": run.name, "state": run.state, **line(run), "alone_bytes": sum_bytes(run.alone)})
    return {
        "root": str(found.root),
        "size_bytes": found.size_bytes,
        "limit_bytes": found.limit_bytes,
        "kinds": [{"kind": kind.name, **line(kind)} for kind in _kinds(found)],
        "runs": runs,
    }
