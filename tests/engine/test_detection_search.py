"""A search for detectors, end to end: real weights, generated images with boxes, real training and measurements."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image, ImageDraw

from advisor.api import doctor
from advisor.core.evaluation import Evaluation, Status
from advisor.core.quantity import Provenance
from advisor.core.units import markdown
from advisor.datasets.capture import STAYING
from advisor.engine.history.loaded_run import load_run
from advisor.engine.history.reevaluate import Devices
from advisor.reporting.files import render_markdown
from advisor.reporting.view import load_view
from advisor.store import RunFolder
from advisor.store.run_folder import integrity_problems
from advisor.tasks import DETECTION
from advisor.tasks.judge import HELD_OUT, VALIDATED
from advisor.tflite.metadata import read_metadata
from advisor.tflite.model import read
from advisor.tflite.postprocess import DETECTIONS, OPERATOR
from tests.builders import present
from tests.datasets.boxes.writers import Photo, write_voc
from tests.documents import problems
from tests.engine.history.test_reevaluate import edited
from tests.engine.history.with_search import reevaluate
from tests.makers.searches import SMALLEST, Searched, searched_once

pytestmark = pytest.mark.slow

COLOURS = {"blue": (30, 40, 230), "red": (230, 40, 30)}
SIZE = (160, 120)
FORMS = ("float32", "int8")


def write_rectangles(root: Path, count: int) -> Path:
    """Write images with a rectangle of each colour, and their boxes as Pascal VOC."""
    draw = np.random.default_rng(0)
    made = []
    for number in range(count):
        objects = []
        for place, name in enumerate(COLOURS):
            width, height = draw.integers(30, 60, 2).tolist()
            left = 80 * place + int(draw.integers(0, 80 - width))
            top = int(draw.integers(0, 120 - height))
            objects.append((name, left, top, left + width, top + height))
        made.append(Photo(f"{number:03d}", tuple(objects), size=SIZE))
    write_voc(root, made)
    for photo in made:
        path = root / "JPEGImages" / f"{photo.name}.jpg"
        image = Image.open(path)
        for name, *edges in photo.objects:
            ImageDraw.Draw(image).rectangle(edges, fill=COLOURS[name])
        image.save(path, quality=95)
    return root


@pytest.fixture(scope="session")
def searched(shared_folder: Path, warm_cache: Path) -> Searched:
    """``advisor search --task object-detection`` on two forms of the smallest card, of which the head is trained."""
    data = shared_folder / "rectangles"
    with FileLock(shared_folder / "rectangles.lock"):
        if not data.is_dir():
            write_rectangles(data, 40)
    options = ("--task", DETECTION.name, "--data", str(data), "--candidates", SMALLEST, "--budget", "1s")
    few = ("--compressions", ",".join(FORMS), "--threads", "1", "--training", "head")
    return searched_once(shared_folder / "with-boxes", warm_cache, *options, *few)


@pytest.fixture
def by_form(searched: Searched) -> Mapping[str, Evaluation]:
    """The evaluations by compression."""
    return {evaluation.configuration.compression: evaluation for evaluation in searched.run.evaluations()}


def test_it_ends_with_a_pick_and_names_the_precision(searched: Searched) -> None:
    assert searched.code == 0, searched.err
    assert "Pick: " in searched.out
    assert "mAP@0.5" in searched.out
    assert "top-1" not in searched.out


def test_every_form_is_trained_scored_and_timed(by_form: Mapping[str, Evaluation]) -> None:
    assert set(by_form) == set(FORMS)
    for evaluation in by_form.values():
        assert evaluation.status is Status.OK, evaluation.reason
        assert present(evaluation.latency).provenance is Provenance.MEASURED
        assert evaluation.card_facts.input_size == DETECTION.side
        assert (evaluation.head, evaluation.new_conditions) == (None, None)
        assert len(evaluation.capture.by_condition) == len(STAYING)


def test_the_accuracy_is_the_precision_on_the_validation_part_in_percent(
    searched: Searched, by_form: Mapping[str, Evaluation]
) -> None:
    split = searched.run.read_json("split.json")
    for evaluation in by_form.values():
        found, drop = evaluation.accuracy, evaluation.drop
        assert found is not None
        assert drop is not None
        assert (found.unit, found.source, found.n) == ("%", f"mAP@0.5 {VALIDATED}", len(split["validation"]))
        assert found.low is not None
        assert found.high is not None
        assert 0 <= found.low <= found.value <= found.high <= 100
        assert found.value > 1, "coloured rectangles are learnt in part even in two steps an epoch"
        assert set(evaluation.answers.per_class_recall) == set(COLOURS)
        assert drop.unit == "points"
    floats = present(by_form["float32"].drop)
    assert floats.value == 0


def test_its_evaluations_are_described_entry_by_entry(searched: Searched) -> None:
    lines = searched.run.evaluations_file.read_text().splitlines()
    assert [found for line in lines for found in problems("evaluation", json.loads(line))] == []


def test_the_share_of_each_validation_image_is_kept(searched: Searched, by_form: Mapping[str, Evaluation]) -> None:
    count = len(searched.run.read_json("split.json")["validation"])
    for evaluation in by_form.values():
        shares = np.load(searched.run.path / evaluation.answers.file)
        assert (shares.dtype, shares.shape) == (np.float32, (count,))
        assert 100 * shares.mean() == pytest.approx(present(evaluation.accuracy).value, abs=1e-3)


def test_the_kept_shares_give_the_precision_again(searched: Searched) -> None:
    assert [check.found for check in doctor(searched.run.path)] == ["every line, file and figure is as it was written"]


def test_every_artefact_is_a_detector_with_labels(searched: Searched, by_form: Mapping[str, Evaluation]) -> None:
    for evaluation in by_form.values():
        data = (searched.run.path / evaluation.artefact).read_bytes()
        model, metadata = read(data), read_metadata(data)
        assert len(model.outputs) == len(DETECTIONS) == 4
        assert model.inputs[0].shape == (1, 320, 320, 3)
        assert model.operators[-1].name == f"CUSTOM:{OPERATOR}"
        assert metadata is not None
        assert metadata.labels == ("blue", "red")
        assert metadata.description.startswith(f"Object detector {SMALLEST}, retrained (head) on ")


def test_int8_is_smaller_than_float(by_form: Mapping[str, Evaluation]) -> None:
    floats, whole = by_form["float32"].size, by_form["int8"].size
    assert floats is not None
    assert whole is not None
    assert whole.value < 0.5 * floats.value


def test_the_pick_has_its_precision_on_the_hold_out(searched: Searched) -> None:
    pick = present(load_run(searched.run.path).decision.pick)
    found, by_class = pick.holdout_accuracy, pick.holdout_answers
    assert found is not None
    assert (found.unit, found.source) == ("%", f"mAP@0.5 {HELD_OUT}")
    assert found.n == len(searched.run.read_json("split.json")["holdout"])
    assert by_class is not None
    assert set(by_class.per_class_recall) == set(COLOURS)


def test_the_pick_has_its_boxes_on_the_hold_out_at_the_threshold_of_validation(searched: Searched) -> None:
    pick, split = load_run(searched.run.path).decision.pick, searched.run.read_json("split.json")
    assert pick is not None
    chosen, judged = pick.answers.boxes, present(pick.holdout_answers).boxes
    assert chosen is not None
    assert judged is not None
    assert 0 < chosen.threshold == judged.threshold < 1
    assert 0 <= judged.coco <= 1
    held = split["holdout"]
    assert {name: boxes.true for name, boxes in judged.by_class.items()} == dict.fromkeys(COLOURS, len(held))
    assert {(image.path, image.sha256) for image in judged.worst} <= {(row["path"], row["sha256"]) for row in held}
    assert len(judged.worst) == min(len(held), 10)
    assert all({(image.width, image.height), len(image.true)} == {SIZE, 2} for image in judged.worst)


def test_the_report_shows_the_images_with_the_most_errors(searched: Searched) -> None:
    page = (searched.run.path / "report.html").read_text()
    split = searched.run.read_json("split.json")
    assert page.count("<figcaption>F1 ") == page.count("data:image/jpeg;base64,") == min(len(split["holdout"]), 10)
    assert "gone, or has changed" not in page


def test_the_boxes_of_each_class_are_counted(searched: Searched) -> None:
    dataset = searched.run.read_json("dataset.json")
    assert dataset["boxes_per_class"] == {"blue": 40, "red": 40}
    assert dataset["train"] + dataset["validation"] + dataset["holdout"] == 40


def test_the_report_names_the_precision_and_counts_the_boxes(searched: Searched) -> None:
    said = render_markdown(load_view(searched.run))
    assert f"| {markdown('mAP@0.5')} on the hold-out |" in said
    assert "Images: 40, 80 boxes in 2 classes (blue, red)" in said
    assert "top-1" not in said.lower()


def test_with_another_runtime_finalists_are_judged_again_as_detectors(
    searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copytree(searched.run.path, tmp_path / "runs" / "20260101-000000-boxes")
    run = RunFolder.open(tmp_path / "runs" / "20260101-000000-boxes")
    edited(run, versions={"ai-edge-litert": "2.2.0"})
    (found,) = reevaluate(run.path, Devices())
    assert found.remarks == ()
    assert found.run is not None
    former = {e.configuration.key: e.holdout_accuracy for e in run.evaluations()}
    latter = {e.configuration.key: e.holdout_accuracy for e in load_run(found.run).evaluations}
    assert latter == former
    assert any(latter.values())
    assert integrity_problems(load_run(found.run).folder) == ()
