"""Scores become probabilities; probabilities stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.core.probabilities import as_probabilities


def test_logits_get_a_softmax() -> None:
    rows = as_probabilities(np.array([[2.0, -1.0], [0.0, 0.0]]))
    assert rows.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert rows.argmax(axis=1).tolist() == [0, 0]


def test_large_logits_without_a_negative_one_are_logits_too() -> None:
    assert as_probabilities(np.array([[900.0, 3.0]])) == pytest.approx(np.array([[1.0, 0.0]]))


@pytest.mark.parametrize("rows", [[[0.25, 0.75]], [[0.0, 0.996]], [[0.5, 0.508]]])
def test_probabilities_stay_as_they_are(rows: list[list[float]]) -> None:
    assert as_probabilities(np.array(rows)) == pytest.approx(np.array(rows))


def test_no_rows_stay_none() -> None:
    assert as_probabilities(np.zeros((0, 3))).shape == (0, 3)
