"""Tables for pandas: types follow from the names of columns."""

from __future__ import annotations

import pytest

from advisor.store.frames import COUNT, FLAG, NUMBER, TEXT, frame, type_of


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("card", TEXT),
        ("latency_p90_ms", NUMBER),
        ("top1_percent", NUMBER),
        ("size_bytes", COUNT),
        ("threads", COUNT),
        ("meets_budget", FLAG),
    ],
)
def test_the_name_of_a_column_says_its_type(column: str, kind: str) -> None:
    assert type_of(column) == kind


def test_missing_values_keep_the_types() -> None:
    found = frame(["card", "latency_ms", "size_bytes", "contended"], [{"card": "net", "size_bytes": 3}, {}])
    assert [str(kind) for kind in found.dtypes] == ["str", "float64", "Int64", "boolean"]
    assert found.isna().to_numpy().tolist() == [[False, True, False, True], [True, True, True, True]]


def test_a_table_without_rows_has_its_columns() -> None:
    assert list(frame(["card", "threads"], []).columns) == ["card", "threads"]
