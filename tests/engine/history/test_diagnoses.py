from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.history.diagnoses import losing
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.question import resolve
from advisor.store import RunFolder
from tests.builders import evaluation


def _form(card: str, compression: str, drop: float, low: float | None) -> Evaluation:
    lost = Quantity(drop, "points", Provenance.MEASURED, low, None if low is None else 2 * drop - low)
    return replace(evaluation(card, compression), drop=lost, artefact=f"artifacts/{card}-{compression}.tflite")


def _run(tmp_path: Path, rows: tuple[Evaluation, ...], **asked: Any) -> LoadedRun:
    request = resolve({"budget": "50ms", **asked}, None)
    decision = Decision(rows[0], True, "", None, "", (), (), (), rows[:1])
    return LoadedRun(RunFolder(tmp_path), request, {}, {}, rows, decision)


def test_a_loss_beyond_its_interval_is_looked_into(tmp_path: Path) -> None:
    rows = (
        _form("a", "float32", 0.0, 0.0),
        _form("a", "int8", 1.0, -0.5),
        _form("a", "int8_per_tensor", 9.0, 6.0),
        _form("a", "weight_int4", 4.0, 2.0),
    )
    assert [row.configuration.compression for row in losing(_run(tmp_path, rows))] == ["int8_per_tensor"]


def test_a_loss_beyond_the_limit_is_looked_into_whatever_its_interval(tmp_path: Path) -> None:
    rows = (_form("a", "float32", 0.0, 0.0), _form("a", "int8", 1.0, -0.5))
    assert not losing(_run(tmp_path, rows))
    limited = _run(tmp_path, rows, max_drop="0.5pt", data=str(tmp_path))
    assert [row.configuration.compression for row in losing(limited)] == ["int8"]


def test_cards_off_the_front_are_left_alone(tmp_path: Path) -> None:
    rows = (_form("a", "float32", 0.0, 0.0), _form("b", "int8", 9.0, 6.0))
    assert not losing(_run(tmp_path, rows))


@pytest.mark.parametrize(("drop", "count"), [(1.0, 0), (3.0, 1)])
def test_an_estimated_loss_counts_where_it_is_clear(tmp_path: Path, drop: float, count: int) -> None:
    rows = (_form("a", "float32", 0.0, None), _form("a", "int8", drop, None))
    assert len(losing(_run(tmp_path, rows))) == count
