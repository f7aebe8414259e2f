"""The class for things that are none of the others: in the file, in the bundle and in MediaPipe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.exporting.bundle import Bundle, export
from advisor.store import RunFolder
from advisor.tflite.metadata import read_metadata
from tests.builders import present
from tests.exporting.conftest import Pixels

pytestmark = pytest.mark.integration


def pick_of(run: RunFolder) -> Evaluation:
    return next(each for each in run.evaluations() if each.unknown is not None)


@pytest.fixture(scope="module")
def told(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return export(trained.path, tmp_path_factory.mktemp("told") / "bundle", unknown_class=True)


def test_the_search_makes_a_file_with_one_more_class_of_its_pick(trained: RunFolder) -> None:
    facts = present(pick_of(trained).unknown)
    metadata = present(read_metadata((trained.path / facts.file).read_bytes()))
    assert metadata.labels[-1] == facts.label == "unknown"
    assert present(facts.kept).value > 0.5


def test_the_bundle_has_the_class_in_model_labels_card_and_vectors(told: Bundle) -> None:
    assert told.model.labels[-1] == "unknown"
    assert (told.path / "labels.txt").read_text().splitlines()[-1] == "unknown"
    card = (told.path / "model_card.md").read_text().replace("\n", " ")
    assert "The last class, unknown, is for images of things that are none of the others. On the hold-out, " in card
    vectors = json.loads((told.path / "test_vectors/vectors.json").read_text())
    assert all(len(each["probabilities"]) == len(told.model.labels) for each in vectors["vectors"])


def test_the_check_of_the_bundle_passes(told: Bundle) -> None:
    import subprocess
    import sys

    done = subprocess.run([sys.executable, told.path / "check.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mediapipe_answers_noise_with_the_class(told: Bundle, many_images: list[Pixels]) -> None:
    mediapipe = pytest.importorskip("mediapipe")
    tasks = mediapipe.tasks
    options = tasks.vision.ImageClassifierOptions(
        base_options=tasks.BaseOptions(model_asset_path=str(told.path / "model.tflite"))
    )
    noise = np.random.default_rng(0).integers(0, 256, many_images[0].shape, dtype=np.uint8)
    with tasks.vision.ImageClassifier.create_from_options(options) as classifier:
        image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=noise)
        found = classifier.classify(image).classifications[0].categories
    assert found[0].category_name == "unknown"


def test_a_candidate_without_such_a_file_is_refused(copied: RunFolder, tmp_path: Path) -> None:
    own = pick_of(copied)
    other = next(each for each in copied.evaluations() if each.artefact and each.artefact != own.artefact)
    copied.append(replace(other, unknown=None))
    with pytest.raises(UsageError, match="no file with a class for unknown things"):
        export(copied.path, tmp_path / "bundle", pick=other.configuration.key, unknown_class=True)


def test_a_changed_file_is_refused(copied: RunFolder, tmp_path: Path) -> None:
    facts = present(pick_of(copied).unknown)
    file = copied.path / facts.file
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UsageError, match="unknown.tflite"):
        export(copied.path, tmp_path / "bundle", unknown_class=True)


def test_a_coral_edge_tpu_cannot_run_the_class(trained: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--edgetpu"):
        export(trained.path, tmp_path / "bundle", targets=["edgetpu"], unknown_class=True)
