"""A classifier's threshold: in the file, in the code and in MediaPipe, if the user asked for a precision."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core.confidence_facts import ConfidenceFacts, Threshold
from advisor.core.statistics import Interval
from advisor.exporting.bundle import Bundle, export
from advisor.exporting.vectors import answers
from advisor.store import RunFolder
from advisor.tflite.metadata import read_metadata
from tests.exporting.conftest import Pixels, evaluation_of, replace_artefact
from tests.exporting.test_detectors import ran

pytestmark = pytest.mark.integration

SCORE = 0.5
PART = Interval(0.03, 0.02, 0.05)


def asked(run: RunFolder, threshold: Threshold | None, promise: str = "95%") -> RunFolder:
    """Return the run as if the user had asked for a precision, and validation had given this threshold."""
    row = evaluation_of(run, "float32")
    facts = ConfidenceFacts(1.2, PART, PART, PART, PART, (), 0.95, threshold)
    content = (run.path / row.artefact).read_bytes()
    changed = replace_artefact(run, row, content, replace(row.answers, confidence=facts))
    run.append(replace(changed, holdout_answers=None))
    request = run.path / "request.yaml"
    if promise:
        lines = [line for line in request.read_text().splitlines() if not line.startswith("min_precision:")]
        request.write_text("\n".join([*lines, f"min_precision: {promise}", ""]))
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
            assert len(seen) == sum(score >= round(middle, 4) for score in row)


def test_the_python_code_says_if_it_is_unsure(copied: RunFolder, unsure: list[Pixels], tmp_path: Path) -> None:
    bundle = made(asked(copied, Threshold(0.999999, None, 0, 100)), tmp_path)
    Image.fromarray(unsure[-1]).save(tmp_path / "noise.png")
    done = ran(bundle.path / "python" / "classify.py", tmp_path / "noise.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("noise.png: unsure")


def test_the_card_says_what_the_threshold_promises_and_what_it_leaves(copied: RunFolder, tmp_path: Path) -> None:
    bundle = made(asked(copied, Threshold(SCORE, Interval(0.97, 0.95, 0.99), 80, 100)), tmp_path)
    card = " ".join((bundle.path / "model_card.md").read_text().split())
    assert "The threshold 0.5 was chosen on validation: from this probability on, 95 % of the answers should be" in card
    assert "97 % of them are right, and 80 % of the images have such an answer" in card
    assert json.loads((bundle.path / "bundle.json").read_text())["threshold"] == SCORE
    for code, word in (("android/Classifier.kt", "LEAST = 0.5f"), ("ios/Classifier.swift", "least: Float = 0.5 ")):
        assert word in (bundle.path / code).read_text()


@pytest.mark.parametrize(
    ("threshold", "promise"), [(Threshold(SCORE, None, 0, 100), ""), (None, "95%")], ids=["not asked", "none reached"]
)
def test_otherwise_all_answers_count(
    copied: RunFolder, tmp_path: Path, threshold: Threshold | None, promise: str
) -> None:
    bundle = made(asked(copied, threshold, promise), tmp_path)
    assert bundle.model.threshold is None
    assert "LEAST" not in (bundle.path / "android/Classifier.kt").read_text()
    assert "LEAST" not in (bundle.path / "python/classify.py").read_text()
