"""Confidence is chosen on validation and verified on the hold-out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.datasets.dataset import Dataset, LabelledImage, fingerprint
from advisor.datasets.split import Split
from advisor.engine.pipeline.evaluation.confidence import MISTAKES, PROMISE, chosen, verified
from advisor.engine.pipeline.images import Images
from advisor.measurement.confidence import tempered

EACH = 300
"""Images of each part; every second one is of the other class."""


@pytest.fixture
def images() -> Images:
    made = tuple(LabelledImage(Path(f"data/{n}.jpg"), n % 2, f"{n}") for n in range(3 * EACH))
    dataset = Dataset(Path("data"), ("a", "b"), made, (), fingerprint(("a", "b"), made))
    return Images(dataset, Split(*(tuple(range(place * EACH, (place + 1) * EACH)) for place in range(3)), 0))


def scores(folder: Path, name: str, seed: int, degrees: float) -> Path:
    """Write probabilities that are true at a temperature, for labels 0, 1, 0, 1, ..."""
    draw = np.random.default_rng(seed)
    margins = draw.normal(0, 3, EACH)
    right = draw.random(EACH) < 1 / (1 + np.exp(-np.abs(margins) / degrees))
    labels = np.arange(EACH) % 2
    signs = np.where(right, 1, -1) * np.where(labels == 1, 1, -1) * np.abs(margins)
    second = 1 / (1 + np.exp(-signs))
    np.save(folder / f"{name}.npy", np.stack([1 - second, second], axis=1).astype(np.float32))
    return folder / f"{name}.npy"


def test_the_temperature_lowers_the_error_of_probabilities_that_are_too_sure(tmp_path: Path, images: Images) -> None:
    facts = chosen(scores(tmp_path, "validation", 0, 3.0), images)
    assert facts.temperature > 1.8
    assert facts.error.value < facts.error_before.value
    assert facts.brier.value < facts.brier_before.value
    assert facts.promised == PROMISE


def test_thresholds_promise_what_was_asked_for_or_are_none(tmp_path: Path, images: Images) -> None:
    validation = scores(tmp_path, "validation", 0, 1.0)
    high, low = chosen(validation, images, 0.85), chosen(validation, images, 0.7)
    assert high.threshold is not None
    assert low.threshold is not None
    assert high.threshold.coverage < low.threshold.coverage
    assert high.promised == 0.85
    assert high.reachable is not None
    assert 0.85 <= high.reachable < 0.995
    assert chosen(validation, images, 0.995).by_class == {"a": None, "b": None}


def test_on_the_hold_out_the_shipped_file_is_judged_at_the_chosen_values(tmp_path: Path, images: Images) -> None:
    facts = chosen(scores(tmp_path, "validation", 0, 3.0), images, 0.8)
    plain = np.load(scores(tmp_path, "plain", 1, 3.0))
    shipped = tmp_path / "shipped.npy"
    np.save(shipped, tempered(plain, facts.temperature))
    judged = verified(shipped, images, facts)
    assert judged.temperature == facts.temperature
    assert judged.error.value < judged.error_before.value
    assert (judged.threshold is None) == (facts.threshold is None)
    assert facts.threshold is not None
    assert judged.threshold is not None
    assert (judged.threshold.score, judged.threshold.of) == (facts.threshold.score, EACH)
    assert set(judged.by_class) == {"a", "b"}


def test_the_surest_mistakes_on_the_hold_out_are_kept(tmp_path: Path, images: Images) -> None:
    facts = chosen(scores(tmp_path, "validation", 0, 1.0), images)
    shipped = scores(tmp_path, "shipped", 1, 1.0)
    rows = np.load(shipped)
    kept = verified(shipped, images, facts).mistakes
    wrong = rows.max(axis=1)[rows.argmax(axis=1) != np.arange(EACH) % 2]
    assert [one.probability for one in kept] == pytest.approx(sorted(wrong, reverse=True)[:MISTAKES])
    assert all(one.label != one.answer for one in kept)
    assert kept[0].path.startswith("data/") or kept[0].path.endswith(".jpg")
    assert facts.mistakes == ()
