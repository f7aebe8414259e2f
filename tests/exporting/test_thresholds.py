"""A classifier's threshold: in the file, in the code and in MediaPipe, if the user asked for a precision."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.core.confidence_facts import ConfidenceFacts, RecallThreshold, Threshold
from advisor.core.guarantees import Guarantees, Shares
from advisor.core.statistics import Interval
from advisor.exporting.bundle import Bundle, export
from advisor.store import RunFolder
from advisor.tasks.classification.shipping import answers
from advisor.tflite.metadata import read_metadata
from tests.exporting.conftest import Pixels, evaluation_of, replace_artefact
from tests.exporting.test_detectors import ran

pytestmark = pytest.mark.integration

SCORE = 0.5
PART = Interval(0.03, 0.02, 0.05)
ASKED = Guarantees(Shares(0.95))


def asked(run: RunFolder, threshold: Threshold | None, wanted: Guarantees = ASKED, **more: Any) -> RunFolder:
    """Return the run as if the user had asked for a precision, and validation had given this threshold."""
    row = evaluation_of(run, "float32")
    facts = ConfidenceFacts(1.2, PART, PART, PART, PART, (), 0.95, threshold, wanted=wanted, answered=threshold, **more)
    content = (run.path / row.artefact).read_bytes()
    changed = replace_artefact(run, row, content, replace(row.answers, confidence=facts))
    run.append(replace(changed, holdout_answers=None))
    return run


def made(run: RunFolder, folder: Path) -> Bundle:
    return export(run.path, folder / "bundle", pick=evaluation_of(run, "float32").configuration.key)


@pytest.fixture
def unsure(many_images: list[Pixels]) -> list[Pixels]:
    """Pictures, noise among them, which hardly looks like any class."""
    noise = np.random.default_rng(0).integers(0, 256, (6, *many_images[0].shape), dtype=np.uint8)
    return [*many_images[::10], *noise]


def test_mediapipe_leaves_out_what_is_below_the_threshold(
    copied: RunFolder, unsure: list[Pixels], tmp_path: Path
) -> None:
    mediapipe = pytest.importorskip("mediapipe")
    plain = made(copied, tmp_path / "plain").model
    rows = answers(plain.content, np.stack(unsure), plain)
    middle = float(np.median([max(row) for row in rows]))
    bundle = made(asked(copied, Threshold(middle, Interval(0.97, 0.95, 0.99), 80, 100)), tmp_path)
    metadata = read_metadata((bundle.path / "model.tflite").read_bytes())
    assert metadata is not None
    assert metadata.threshold == pytest.approx(middle, abs=1e-4)
    vision = mediapipe.tasks.vision
    base = mediapipe.tasks.BaseOptions(model_asset_buffer=bundle.model.content)
    with vision.ImageClassifier.create_from_options(vision.ImageClassifierOptions(base_options=base)) as client:
        for pixels, row in zip(unsure, rows, strict=True):
            image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(pixels))
            seen = client.classify(image).classifications[0].categories
            assert len(seen) == sum(score >= metadata.threshold for score in row)


def test_the_python_code_says_if_it_is_unsure(copied: RunFolder, unsure: list[Pixels], tmp_path: Path) -> None:
    bundle = made(asked(copied, Threshold(0.999999, None, 0, 100)), tmp_path)
    Image.fromarray(unsure[-1]).save(tmp_path / "noise.png")
    done = ran(bundle.path / "python" / "classify.py", tmp_path / "noise.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("noise.png: unsure")


def test_the_card_says_what_the_threshold_guarantees_and_what_it_leaves(copied: RunFolder, tmp_path: Path) -> None:
    bundle = made(asked(copied, Threshold(SCORE, Interval(0.97, 0.95, 0.99), 80, 100)), tmp_path)
    card = " ".join((bundle.path / "model_card.md").read_text().split())
    assert "The threshold 0.5 was chosen for precision: from this probability on, 95 % of the answers should be" in card
    assert "97 % of the answers that count are right, and 80 % of the images have such an answer" in card
    assert json.loads((bundle.path / "bundle.json").read_text())["threshold"] == SCORE
    for code, word in (("android/Classifier.kt", "LEAST = 0.5f"), ("ios/Classifier.swift", "least: Float = 0.5 ")):
        assert word in (bundle.path / code).read_text()


@pytest.mark.parametrize(
    ("threshold", "wanted"),
    [(Threshold(SCORE, None, 0, 100), Guarantees()), (None, ASKED)],
    ids=["not asked", "none reached"],
)
def test_otherwise_all_answers_count(
    copied: RunFolder, tmp_path: Path, threshold: Threshold | None, wanted: Guarantees
) -> None:
    bundle = made(asked(copied, threshold, wanted), tmp_path)
    assert bundle.model.threshold is None
    assert "LEAST" not in (bundle.path / "android/Classifier.kt").read_text()
    assert "LEAST" not in (bundle.path / "python/classify.py").read_text()


def everything(run: RunFolder, names: tuple[str, ...]) -> RunFolder:
    """Return a run with a threshold, one of a class and a recall threshold of another class."""
    share = Interval(0.97, 0.95, 0.99)
    wanted = Guarantees(Shares(0.95, {names[0]: 0.9}), Shares(None, {names[1]: 0.9}))
    return asked(
        run, Threshold(0.6, share, 80, 100), wanted,
        by_class={names[0]: Threshold(0.87, share, 10, 20)},
        recall={names[1]: RecallThreshold(0.9, 0.92, 0.0625, share, share, 30, 100)},
    )  # fmt: skip


def labels_of(run: RunFolder) -> tuple[str, ...]:
    metadata = read_metadata((run.path / evaluation_of(run, "float32").artefact).read_bytes())
    assert metadata is not None
    return metadata.labels


def test_thresholds_of_classes_are_in_the_code_the_card_and_the_summary(copied: RunFolder, tmp_path: Path) -> None:
    names = labels_of(copied)
    bundle = made(everything(copied, names), tmp_path)
    kotlin, swift = ((bundle.path / file).read_text() for file in ("android/Classifier.kt", "ios/Classifier.swift"))
    assert "LEAST = 0.6f" in kotlin
    assert "LEAST_OF = mapOf(0 to 0.87f)" in kotlin
    assert "MAY_SHOW = mapOf(1 to 0.0625f)" in kotlin
    assert "leastOf: [Int: Float] = [0: 0.87]" in swift
    assert "mayShow: [Int: Float] = [1: 0.0625]" in swift
    card = " ".join((bundle.path / "model_card.md").read_text().split())
    assert "95 % of the answers of the other classes should be right" in card
    assert "count from 0.87 on: 90 % of them should be right" in card
    assert "if that probability is at least 0.0625, whatever the answer is: 90 % of the images" in card
    summary = json.loads((bundle.path / "bundle.json").read_text())
    assert summary["class_thresholds"] == {names[0]: 0.87}
    assert summary["recall_thresholds"] == {names[1]: 0.0625}


def test_test_vectors_say_what_the_app_does(copied: RunFolder, unsure: list[Pixels], tmp_path: Path) -> None:
    names = labels_of(copied)
    bundle = made(everything(copied, names), tmp_path)
    rows = json.loads((bundle.path / "test_vectors" / "vectors.json").read_text())["vectors"]
    for row in rows:
        least = 0.87 if row["label"] == 0 else 0.6
        assert row["answered"] == (max(row["probabilities"]) >= least)
        assert row["may_show"] == ([names[1]] if row["probabilities"][1] >= 0.0625 else [])
    Image.fromarray(unsure[-1]).save(tmp_path / "noise.png")
    done = ran(bundle.path / "python" / "classify.py", tmp_path / "noise.png")
    assert done.returncode == 0, done.stderr
    assert "    may show: " in done.stdout


def test_mediapipe_compares_each_class_with_its_threshold(
    copied: RunFolder, unsure: list[Pixels], tmp_path: Path
) -> None:
    mediapipe = pytest.importorskip("mediapipe")
    bundle = made(everything(copied, labels_of(copied)), tmp_path)
    metadata = read_metadata(bundle.model.content)
    assert metadata is not None
    assert (metadata.threshold, metadata.by_class[:2]) == (pytest.approx(0.6), (0.87, 0.6))
    vision = mediapipe.tasks.vision
    base = mediapipe.tasks.BaseOptions(model_asset_buffer=bundle.model.content)
    rows = answers(bundle.model.content, np.stack(unsure), bundle.model)
    with vision.ImageClassifier.create_from_options(vision.ImageClassifierOptions(base_options=base)) as client:
        for pixels, row in zip(unsure, rows, strict=True):
            image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(pixels))
            seen = {each.index: each.score for each in client.classify(image).classifications[0].categories}
            expected = {place: score for place, score in enumerate(row) if score >= metadata.by_class[place]}
            assert seen == pytest.approx(expected, abs=1e-5)


def test_mediapipe_shows_no_class_behind_one_that_is_left_out(copied: RunFolder, tmp_path: Path) -> None:
    names = labels_of(copied)
    own = {names[0]: Threshold(0.87, None, 0, 20)}
    bundle = made(asked(copied, None, Guarantees(Shares(None, {names[0]: 0.9})), by_class=own), tmp_path)
    metadata = read_metadata(bundle.model.content)
    assert metadata is not None
    assert metadata.by_class == (0.87, *[0.5] * (len(names) - 1))
    assert bundle.model.threshold is None
