"""Rows of a table, sorted and filtered as a user writes it."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.core.errors import UsageError
from advisor.reporting.selection import Rows, rows_of

COLUMNS = ("name", "size_bytes", "latency_median_ms", "drop_points", "threads", "meets_budget")
ITEMS: list[dict[str, Any]] = [
    {"name": "Beta_net", "size_bytes": 4_000_000, "latency_median_ms": 12.0, "drop_points": 0.5, "threads": 4},
    {"name": "alpha_net", "size_bytes": 9_000_000, "latency_median_ms": 3.5, "threads": 1, "meets_budget": True},
    {"name": "gamma", "size_bytes": 4_000_000, "drop_points": -0.2, "threads": 1, "meets_budget": False},
]
ROWS: Rows[dict[str, Any]] = Rows(COLUMNS, lambda item: item)


def names(sort: str = "", *filters: str) -> str:
    """Return the initials of what is shown."""
    return "".join(item["name"][0] for item in ROWS.select(sort, filters).of(ITEMS))


@pytest.mark.parametrize(
    ("sort", "shown"),
    [
        ("", "Bag"),
        ("name", "aBg"),
        ("-name", "gBa"),
        ("size_bytes", "Bga"),
        ("size,-threads", "Bga"),
        ("size,threads", "gBa"),
        ("latency", "aBg"),
        ("-latency", "Bag"),
        ("Latency-median", "aBg"),
    ],
)
def test_rows_are_sorted_with_missing_values_last(sort: str, shown: str) -> None:
    assert names(sort) == shown


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("size<5 MB", "Bg"),
        ("size>=4MB", "Bag"),
        ("size = 9MB", "a"),
        ("latency<=0.01s", "a"),
        ("drop<0", "g"),
        ("drop>0.1pt", "B"),
        ("threads=1,2", "ag"),
        ("threads!=1,2", "B"),
        ("name=*_net", "Ba"),
        ("name!=*_NET", "g"),
        ("name=gamma,beta*", "Bg"),
        ("meets_budget=yes", "a"),
        ("meets_budget=no", "g"),
        ("name=[", ""),
    ],
)
def test_rows_pass_a_comparison_in_the_unit_of_its_column(condition: str, shown: str) -> None:
    assert names("", condition) == shown


def test_rows_pass_every_filter() -> None:
    assert names("name", "size<5MB", "threads=1") == "g"


@pytest.mark.parametrize(
    ("condition", "message", "hint"),
    [
        ("sise<5MB", "unknown column 'sise' (did you mean 'size'?)", "columns: name, size_bytes"),
        ("size<5", "'5' has no unit", "--filter 'size_bytes<5MB'"),
        ("size<5Mb", "unknown unit 'Mb' (did you mean", "units: B, kB"),
        ("size", "'size' is not a comparison", "size<5MB"),
        ("threads<few", "'few' is not a number", "'threads' holds numbers"),
        ("name<b", "'name' holds texts, and '<' compares numbers", "= or !="),
        ("meets_budget>no", "'meets_budget' holds yes or no", "= or !="),
        ("meets_budget=perhaps", "yes or no, not 'perhaps'", "meets_budget=yes"),
    ],
)
def test_a_bad_comparison_names_what_is_wrong(condition: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        ROWS.select("", [condition])
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_an_unknown_column_to_sort_by_names_the_nearest_and_all() -> None:
    with pytest.raises(UsageError, match=r"--sort: unknown column 'nam' \(did you mean 'name'\?\)") as raised:
        ROWS.select("-size,nam")
    assert raised.value.hint == f"columns: {', '.join(COLUMNS)}"


def test_columns_hold_what_paths_lead_to() -> None:
    rows = rows_of({"name": "0.real", "first": "1.0", "size_bytes": "2.size"})
    assert rows.row((3 + 1j, ("one", "two"), {"size": 7})) == {"name": 3.0, "first": "one", "size_bytes": 7}
    assert rows.row((3 + 1j, (), None)) == {"name": 3.0, "first": None, "size_bytes": None}
