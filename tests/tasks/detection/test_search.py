"""A search for detectors of small images: real weights, generated images with boxes, real training and timing."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from advisor.api import doctor, judge_tiles, predict
from advisor.core import METRICS, Provenance, Status, UsageError
from advisor.datasets import STAYING
from advisor.engine import LoadedRun
from advisor.reporting import RunView
from advisor.reporting._files import render_markdown
from advisor.reporting._text import escape_markdown
from advisor.store import RunFolder
from advisor.tasks._judge import HELD_OUT, VALIDATED
from tests.builders import interval, must_fail, present
from tests.datasets.boxes.writers import Photo, write_voc
from tests.documents import problems
from tests.makers.once import make_once
from tests.run_folders import lines

pytestmark = pytest.mark.integration

COLOURS = {"blue": (30, 40, 230), "red": (230, 40, 30)}
SIZE = (160, 120)


def write_rectangles(root: Path, count: int) -> None:
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


@pytest.fixture(scope="module")
def run(shared_folder: Path, search_small: Callable[..., None]) -> RunFolder:
    """A search in two forms of the small card, of which the head is trained."""
    data = make_once(shared_folder / "rectangles", lambda folder: write_rectangles(folder, 40))
    runs = make_once(shared_folder / "detection", partial(search_small, data, task="small-boxes", training=["head"]))
    return RunFolder((runs / "latest").resolve())


def test_the_report_names_the_precision(run: RunFolder) -> None:
    said = render_markdown(RunView.load(run))
    assert f"| {escape_markdown('mAP@0.5')} on the hold-out |" in said
    assert "Images: 40, 80 boxes in 2 classes (blue, red)" in said
    assert "top-1" not in said.lower()


def test_tiles_find_small_objects_of_a_large_photograph(run: RunFolder, shared_folder: Path, tmp_path: Path) -> None:
    with Image.open(shared_folder / "rectangles" / "JPEGImages" / "000.jpg") as image:
        Image.fromarray(np.tile(np.asarray(image), (3, 3, 1))).save(tmp_path / "large.png")
    (whole,), (tiled,) = (predict(run.path, [tmp_path / "large.png"], tiles=tiles) for tiles in (1, 3))
    assert len(whole.found) < len(tiled.found)


def test_tiles_are_judged_beside_the_figures_of_the_hold_out(run: RunFolder, tmp_path: Path) -> None:
    pick, found = present(LoadedRun.load(run.path).decision.pick), judge_tiles(run.path, 2)
    assert (found.key, found.images, found.runs) == (pick.configuration.key, found.held_out, 5)
    accuracy, *areas = found.figures
    assert (accuracy.name, accuracy.whole.value) == ("mAP@0.5", pytest.approx(pick.holdout_accuracy.value, abs=0.01))
    assert {figure.name for figure in areas} == {METRICS[name].label for name in pick.holdout_answers.metrics}
    rows = pick.holdout_answers.boxes.by_size
    assert [figure.whole.value for figure in found.sizes] == pytest.approx([100 * row.recall for row in rows], abs=0.01)
    for figure in (*found.figures, *found.sizes):
        assert figure.gain.value == pytest.approx(figure.tiled.value - figure.whole.value, abs=0.02)
        assert figure.gain.low <= figure.gain.value <= figure.gain.high
    copy = shutil.copytree(run.path, tmp_path / "copy")
    (copy / "split.json").write_text(json.dumps({"holdout": run.read_json("split.json")["holdout"][1:]}))
    must_fail(UsageError, "the images of the hold-out have changed since 'copy'", judge_tiles, copy)


def test_the_run_is_whole_and_described_entry_by_entry(run: RunFolder) -> None:
    assert [check.found for check in doctor(run.path)] == ["every line, file and figure is as it was written"]
    assert list(run.heads) == [present(LoadedRun.load(run.path).decision.pick).configuration.card]
    assert [found for line in lines(run) for found in problems("evaluation", json.loads(line))] == []


def test_every_form_is_trained_scored_and_timed(run: RunFolder) -> None:
    by_form = {evaluation.configuration.compression: evaluation for evaluation in run.evaluations()}
    validation = run.read_json("split.json")["validation"]
    assert set(by_form) == {"float32", "int8"}
    for evaluation in by_form.values():
        assert evaluation.status is Status.OK, evaluation.reason
        assert present(evaluation.latency).provenance is Provenance.MEASURED
        assert evaluation.card_facts.input_size == 96
        assert (evaluation.head, evaluation.new_conditions) == (None, None)
        assert len(evaluation.capture.by_condition) == len(STAYING)
        precision = present(evaluation.accuracy)
        assert (precision.unit, precision.source, precision.n) == ("%", f"mAP@0.5 {VALIDATED}", len(validation))
        low, value, high = interval(precision)
        assert 0 <= low <= value <= high <= 100
        assert value > 1, "coloured rectangles are learnt in part even in few steps"
        assert set(evaluation.answers.per_class_recall) == set(COLOURS)
        assert present(evaluation.drop).unit == "points"
        shares = np.load(run.path / evaluation.answers.file)
        assert (shares.dtype, shares.shape) == (np.float32, (len(validation),))
        assert 100 * shares.mean() == pytest.approx(value, abs=1e-3)
    assert present(by_form["float32"].drop).value == 0
    assert present(by_form["int8"].size).value < 0.5 * present(by_form["float32"].size).value


def test_the_pick_has_its_precision_and_boxes_on_the_hold_out_at_validations_threshold(run: RunFolder) -> None:
    pick, held = present(LoadedRun.load(run.path).decision.pick), run.read_json("split.json")["holdout"]
    precision, answers = present(pick.holdout_accuracy), present(pick.holdout_answers)
    assert (precision.unit, precision.source, precision.n) == ("%", f"mAP@0.5 {HELD_OUT}", len(held))
    assert set(answers.per_class_recall) == set(COLOURS)
    chosen, judged = present(pick.answers.boxes), present(answers.boxes)
    assert 0 < chosen.threshold == judged.threshold < 1
    assert 0 <= judged.coco <= 1
    assert {name: boxes.true for name, boxes in judged.by_class.items()} == dict.fromkeys(COLOURS, len(held))
    assert {(image.path, image.sha256) for image in judged.worst} <= {(row["path"], row["sha256"]) for row in held}
    assert len(judged.worst) == min(len(held), 10)
    assert all({(image.width, image.height), len(image.true)} == {SIZE, 2} for image in judged.worst)
