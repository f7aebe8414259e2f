"""The benchmark of the pick compares rules on the same drawn images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.core.evaluation import Evaluation
from benchmarks.accuracy_pick import DRAWS, FORMER, HEADER, RULES, Candidate, _rows, former, most_accurate, ours

IMAGES = 652


def candidate(
    card: str, form: str, wrong: Sequence[int], latency_ms: float, size_bytes: int, holdout: float
) -> Candidate:
    right = np.ones(IMAGES, dtype=bool)
    right[list(wrong)] = False
    return Candidate(card, form, right, holdout, latency_ms, size_bytes)


RECORDED = (
    candidate("network", "float32", range(93), 9.0, 34_000_000, 82.7),
    candidate("network", "weight_int8", range(94), 4.6, 31_000_000, 82.6),
    candidate("network", "int8", (*range(90), *range(640, 647)), 3.2, 9_700_000, 82.5),
    candidate("costly", "float32", range(573, 652), 120.0, 150_000_000, 84.0),
)
"""A search on groceries: forms of one network three images apart, and a more accurate network that costs too much."""


def known(each: Evaluation) -> list[float]:
    by_form = {(row.card, row.form): row.right for row in RECORDED}
    right: list[float] = by_form[each.configuration.card, each.configuration.compression].astype(float).tolist()
    return right


def test_the_rules_differ_on_forms_three_images_apart() -> None:
    evaluations = [each.judged(np.arange(IMAGES)) for each in RECORDED]
    assert former(evaluations, known).configuration.compression == "weight_int8"
    assert ours(evaluations, known).configuration.compression == "int8"
    assert most_accurate(evaluations, known).configuration.card == "costly"


def test_a_table_has_a_row_for_each_rule_against_the_former_one() -> None:
    rows = _rows("0,1", 300, {0: RECORDED, 1: RECORDED[:3]})
    assert [row[3] for row in rows] == list(RULES)
    assert all(len(row) == len(HEADER) for row in rows)
    by_rule = {row[3]: row for row in rows}
    assert by_rule[FORMER][5:7] == ("+0.00 ± 0.00", "1.00")
    assert float(by_rule["this rule"][6]) <= 1.0  # type: ignore[arg-type]
    assert DRAWS >= 20
