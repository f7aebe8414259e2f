from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.core.unknown_facts import UnknownFacts
from advisor.engine.pipeline.evaluation.unknown import with_answers
from tests.builders import present

KNOWN = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]
LABELS = [0, 1, 1, 0]
OTHERS = [[0.1, 0.1, 0.8], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]]


def kept(rows: list[list[float]], path: Path) -> Path:
    np.save(path, np.array(rows, np.float32))
    return path


def test_known_images_that_are_answered_as_unknown_are_not_kept(tmp_path: Path) -> None:
    found = with_answers(UnknownFacts(), kept(KNOWN, tmp_path / "known.npy"), LABELS, None)
    assert (found.kept is not None, found.others) == (True, None)
    assert present(found.kept).value == pytest.approx(3 / 4)


def test_the_precision_is_that_of_the_images_that_are_kept(tmp_path: Path) -> None:
    found = with_answers(UnknownFacts(), kept(KNOWN, tmp_path / "known.npy"), LABELS, None)
    assert present(found.precision).value == pytest.approx(2 / 3)


def test_there_is_no_precision_where_nothing_is_kept(tmp_path: Path) -> None:
    found = with_answers(UnknownFacts(), kept([[0.1, 0.9]], tmp_path / "known.npy"), [0], None)
    assert found.precision is None


def test_other_things_are_found_and_ranked(tmp_path: Path) -> None:
    others = kept(OTHERS, tmp_path / "others.npy")
    found = present(with_answers(UnknownFacts(), kept(KNOWN, tmp_path / "known.npy"), LABELS, others).others)
    assert (found.images, found.found.value) == (4, pytest.approx(3 / 4))
    assert found.auroc.value == pytest.approx(15 / 16)
