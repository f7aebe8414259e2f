"""``advisor compress`` on a detector of others."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from advisor.core import UsageError, _image_units as image_units
from advisor.datasets import BoxSurvey, Division
from advisor.engine import compress
from advisor.engine._compress.file_kinds import Detectors
from advisor.measurement import Detections
from advisor.tasks.detection import DETECTION
from advisor.tflite import OPERATOR, Metadata, read
from tests.builders import must_fail
from tests.compression.user_model.questions import Asked
from tests.detectors import COLOURS, detector_file, raw_detector, write_cells

pytestmark = pytest.mark.integration

HERE, THERE = (0.1, 0.1, 0.3, 0.3), (0.5, 0.5, 0.9, 0.9)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of few draws: each draw evaluates all images again, and no test looks at the ends."""
    monkeypatch.setattr(image_units, "RESAMPLES", 8)


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    return detector_file(tmp_path / "cells.tflite")


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    return write_cells(tmp_path / "boxes")


def found(*rows: tuple[int, float, tuple[float, ...]]) -> Detections:
    labels, scores, edges = ([row[place] for row in rows] for place in range(3))
    return Detections(np.array(edges, "f4").reshape(-1, 4), np.array(labels, np.int64), np.array(scores, "f4"))


@pytest.mark.usefixtures("here")
def test_a_recipe_that_applies_makes_a_detector_with_its_labels(detector: Path, boxes: Path, asked: Asked) -> None:
    result = compress(asked(detector, "float16", "int8", "mixed_int8", data=boxes), lambda _: None, latency=False)
    assert (result.task, result.metric) == (DETECTION.name, "mAP@0.5")
    *forms, mixed = result.forms
    assert mixed.status == "skipped"
    assert "learns from images of one class each, and the file is for object-detection" in mixed.reason
    for form in forms:
        assert form.status == "ok", form.reason
        assert form.agreement.accuracy.value > 0.95
        data = Path(form.path).read_bytes()
        assert read(data).operators[-1].name == f"CUSTOM:{OPERATOR}"
        said = Metadata.read(data)
        assert (said.labels, said.licence) == (COLOURS, "MIT")


@pytest.mark.integration
@pytest.mark.usefixtures("here")
def test_a_recipe_teaches_a_detector_what_its_float_file_finds(detector: Path, boxes: Path, asked: Asked) -> None:
    form = compress(asked(detector, "qat_int8", data=boxes), lambda _: None, latency=False).forms[1]
    assert form.status == "ok", form.reason
    assert form.notes["learning"]["steps"] > 0
    assert form.agreement.accuracy.value > 0.95


@pytest.mark.usefixtures("here")
def test_without_boxes_there_is_agreement_and_what_changes_is_said(detector: Path, asked: Asked) -> None:
    result = compress(asked(detector), lambda _: None, latency=False)
    agreement = result.forms[1].agreement
    assert agreement.accuracy is None
    assert 0.5 < agreement.share.value <= 1
    assert f"each form has the post-processing of the file ({OPERATOR})" in result.notes
    assert any("the outputs of the forms are boxes, classes, scores, count" in note for note in result.notes)


@pytest.mark.usefixtures("here")
def test_where_the_float_file_is_sure_of_nothing_a_note_says_so(tmp_path: Path, asked: Asked) -> None:
    unsure = detector_file(tmp_path / "unsure.tflite", raw=raw_detector(shift=-8.0))
    result = compress(asked(unsure, "float16"), lambda _: None, latency=False)
    assert any("the float file is sure of nothing in these images" in note for note in result.notes)


def test_images_with_boxes_are_split_as_a_search_splits_them(detector: Path, boxes: Path, asked: Asked) -> None:
    images = asked(detector, data=boxes).images
    read_again = BoxSurvey.read_images(boxes)
    parts = Division.of_boxes(read_again, 0)[0].split
    assert images.scored == tuple(read_again.images.dataset.images[index].path for index in parts.holdout)
    assert not set(images.calibration) & set(images.scored)


def test_own_calibration_leaves_all_boxes_to_judge(detector: Path, boxes: Path, asked: Asked, tmp_path: Path) -> None:
    shutil.copytree(boxes.parent, tmp_path / "others")
    assert len(asked(detector, data=boxes, calibration=tmp_path / "others").images.scored) == 40


def test_classes_of_boxes_find_their_class_by_name(detector: Path, boxes: Path, asked: Asked) -> None:
    first, size = asked(detector, data=boxes).images.labels[0]
    assert size == (32, 32)
    rows = boxes.read_text().splitlines()[1:]
    name = asked(detector, data=boxes, force=True).images.scored[0].name
    expected = sorted(row.split(",")[1] for row in rows if row.startswith(f"{name},"))
    assert sorted(COLOURS[label] for label in first.labels) == expected


def test_other_labels_than_the_detector_knows_are_refused(tmp_path: Path, detector: Path, asked: Asked) -> None:
    others = write_cells(tmp_path / "others", names=("red", "greem", "blue"))
    caught = must_fail(UsageError, "the model has no class 'greem' .did you mean 'green'", asked, detector, data=others)
    assert "its classes: red, green, blue" in caught.hint
    path = detector_file(tmp_path / "few.tflite", labels=("red", "green"))
    must_fail(UsageError, "few.tflite has 2 labels and 3 classes", asked, path)


def test_class_folders_are_no_images_for_a_detector(detector: Path, photos: Path, asked: Asked) -> None:
    must_fail(UsageError, "has no boxes in a known format", asked, detector, data=photos)


def test_boxes_are_no_images_for_a_classifier(described: Path, tmp_path: Path, asked: Asked) -> None:
    from tests.datasets.boxes.writers import photos, write_voc

    caught = must_fail(UsageError, "", asked, described, data=write_voc(tmp_path / "voc", photos(10, "cat")))
    assert "the model is a classifier: give class folders" in caught.hint


def test_a_detector_without_metadata_needs_means_and_class_numbers(tmp_path: Path, boxes: Path, asked: Asked) -> None:
    path = detector_file(tmp_path / "bare.tflite", labels=None)
    must_fail(UsageError, r"bare.tflite does not say how its images are normalised", asked, path)
    assert asked(path, data=boxes, mean=(127.5,), std=(127.5,)).metadata is None
    two = write_cells(tmp_path / "two", names=("red", "red", "blue"))
    with pytest.raises(UsageError, match=r"2 class.*the model has 3 classes .and no labels"):
        asked(path, data=two, mean=(127.5,), std=(127.5,), force=True)


def test_boxes_are_judged_against_float_and_truth_unless_float_is_sure_of_nothing() -> None:
    floats = [found((1, 0.9, HERE), (2, 0.8, THERE), (0, 0.2, HERE))]
    own = [found((1, 0.9, HERE), (0, 0.7, THERE))]
    truth = [(Detections.of_true_boxes(((1, *HERE), (2, *THERE))), (100, 200))]
    agreement = Detectors().compare(own, floats, truth)
    assert [agreement.accuracy.value, agreement.drop.value, agreement.share.value] == pytest.approx([0.5] * 3)
    assert agreement.snr_db is None
    agreement = Detectors().compare([found()], [found((0, 0.2, HERE))], ())
    assert (agreement.share.low, agreement.share.high) == (0.0, 1.0)
