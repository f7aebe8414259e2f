"""The cache as tables, by kind and by run, for ``advisor cache``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from advisor.core import show_bytes
from advisor.reporting._blocks import Labelled, TableColumn, show, table_of
from advisor.reporting._view import make_typed_path
from advisor.store import CacheContents, CacheShare


@cache
def _list_kind_columns() -> tuple[TableColumn[CacheShare], ...]:
    """Return the columns of the kinds of results."""
    return (
        TableColumn[CacheShare]("kind", lambda share: share.name, left=True, whole=True),
        TableColumn[CacheShare]("entries", lambda share: str(len(share.entries))),
        TableColumn[CacheShare]("size", lambda share: show_bytes(share.size_bytes)),
        TableColumn[CacheShare]("last used", lambda share: share.last_used, left=True),
    )


@cache
def _list_run_columns() -> tuple[TableColumn[CacheShare], ...]:
    """Return the columns of the runs that use results."""
    return (
        TableColumn[CacheShare]("run", _type_run, left=True),
        TableColumn[CacheShare]("state", lambda share: share.state, left=True, whole=True),
        TableColumn[CacheShare]("uses", lambda share: show_bytes(share.size_bytes), whole=True),
        TableColumn[CacheShare]("alone", lambda share: show_bytes(share.alone_bytes), whole=True),
        TableColumn[CacheShare]("last used", lambda share: share.last_used, left=True, whole=True),
    )


def _type_run(share: CacheShare) -> str:
    """Return the folder of a run as the user would type it, so that it leaves room for figures."""
    return make_typed_path(Path(share.name))


def print_cache(contents: CacheContents) -> None:
    """Print the cache."""
    size = (
        f"{show_bytes(contents.size_bytes)} of {show_bytes(contents.limit_bytes)} in"
        f" {contents.root}"
    )
    tables = [table_of(_list_kind_columns(), contents.kinds)]
    if contents.runs:
        tables.append(table_of(_list_run_columns(), contents.runs))
    show([Labelled("Cache", size), *tables])
