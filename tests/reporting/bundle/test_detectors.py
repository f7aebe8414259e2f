"""The bundles of a detector and a counter: their code finds what MediaPipe finds and what was judged."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

from advisor.core import BoxFacts, ClassBoxes, ImageAnswers, UsageError
from advisor.datasets import InputSpec
from advisor.integrations.browser import LITERT
from advisor.measurement import CentreFinder, Detector
from advisor.measurement._box_matches import LEAST_SCORE
from advisor.reporting import Bundle, check
from advisor.reporting._bundle.bundle import export
from advisor.store import RunFolder
from advisor.tasks._counting import COUNTING
from advisor.tasks._judge import PALETTE
from advisor.tasks.detection import DETECTION
from advisor.tflite import Metadata, Suppression
from tests.builders import evaluation, present
from tests.detectors import COLOURS, SIDE, detector_file, marker_file, write_cells
from tests.makers.browsers import Browser, Page, new_context, require_runtime
from tests.makers.bundles import checked_otherwise, output_of, ran, replace_artefact
from tests.run_folders import write_run
from tests.tables import read_table, with_cases

pytestmark = pytest.mark.integration

THRESHOLD = 0.6
FOUND = re.compile(r"(\d+\.png): (\w+) ([\d.]+) %, top, left, bottom, right: (\d+), (\d+), (\d+), (\d+)")
DATASET = {"folder": "cells", "pictures_per_class": {"all images": 40}, "boxes_per_class": dict.fromkeys(COLOURS, 27)}
COLOURS_OF_LAYER = read_table(__file__, "texts.yaml")["colours_of_layer"]
BOX = {"label": 1, "score": 0.8, "box": [0.1, 0.2, 0.4, 0.6]}
UNSURE = {"label": 0, "score": 0.41, "box": [0.5, 0.5, 0.9, 0.9]}
ROW = {"least": 0.4, "boxes": [BOX, UNSURE]}
FOUND_OF_COUNTERS = re.compile(r"(\d+\.png): (\w+) ([\d.]+) %, down, across: (\d+), (\d+)")
COUNTED = re.compile(r"(\d+\.png): (\d+) (\w+)$", re.MULTILINE)


def detector_run(folder: Path, boxes: BoxFacts | None) -> RunFolder:
    """A run of one detector on two threads."""
    row = evaluation("cells", "float32")
    target = replace(row.configuration.target, threads=2)
    row = replace(row, configuration=replace(row.configuration, target=target))
    request = {"task": DETECTION.name, "data": "boxes"}
    run = write_run(folder, [row], request=request, dataset={**DATASET, "train": 24, "validation": 8, "holdout": 8})
    content = detector_file(folder / "cells.tflite", order=(0, 1, 2, 3)).read_bytes()
    replace_artefact(run, row, content, ImageAnswers(dict.fromkeys(COLOURS, 0.9), boxes=boxes))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    by_class = {name: ClassBoxes(8, 6, 0.83, 0.62, 0.25) for name in COLOURS}
    return detector_run(tmp_path_factory.mktemp("detector"), BoxFacts(THRESHOLD, 0.5, by_class))


@pytest.fixture(scope="module")
def made(run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return export(run.path, tmp_path_factory.mktemp("bundle") / "made")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images") / "cells"
    write_cells(folder, 3)
    noise = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "9.png")  # has scores on both sides of the threshold
    return sorted(folder.glob("*.png"))


def answered(page: Page, photograph: Path) -> tuple[dict[str, int], list[float], set[int]]:
    """Return what the page of a bundle says of a photograph: counts, best scores, and classes by colours."""
    before = page.get_attribute("#result", "data-count") or "0"
    page.set_input_files("#file", str(photograph))
    page.wait_for_selector(f"#result[data-count='{int(before) + 1}']")
    counts = {name: int(number) for number, name in (row.split(" ") for row in page.inner_text("#answer").split(", "))}
    scores = json.loads(page.get_attribute("#result", "data-probabilities") or "")
    palette = np.array([[*bytes.fromhex(each[1:])] for each in PALETTE])
    apart = np.abs(np.array(page.evaluate(COLOURS_OF_LAYER)).reshape(-1, 1, 3) - palette).sum(axis=-1)
    return counts, scores, set(apart.argmin(axis=1).tolist())


@pytest.mark.parametrize("task", ["made", "counter"])
def test_the_page_shows_the_objects_that_the_file_finds(
    task: str, request: pytest.FixtureRequest, browser: Browser, images: list[Path]
) -> None:
    require_runtime(LITERT)
    bundle: Bundle = request.getfixturevalue(task)
    page, view = new_context(browser).new_page(), InputSpec(SIDE, (127.5,) * 3, (127.5,) * 3)
    find = (Detector if task == "made" else CentreFinder)(bundle.path / "model.tflite", view)
    page.goto((bundle.path / "web" / "index.html").as_uri())
    page.wait_for_selector("body[data-ready]")
    for photograph in images[:-1]:
        seen, least = find(photograph), bundle.model.threshold or 0.0
        labels = seen.labels[seen.scores >= least].tolist()
        best = [max([0.0, *seen.scores[(seen.labels == place) & (seen.scores >= least)]]) for place in range(3)]
        counts, scores, colours = answered(page, photograph)
        assert counts == {COLOURS[place]: labels.count(place) for place in set(labels)}
        assert scores == pytest.approx(best, abs=0.01)
        assert colours == set(labels)


def seen_by_mediapipe(model: bytes, path: Path) -> list[tuple[str, float, tuple[int, ...]]]:
    """Return label, score, and top, left, height and width of each object; MediaPipe rounds each of them down."""
    mediapipe = pytest.importorskip("mediapipe")
    vision = mediapipe.tasks.vision
    base = mediapipe.tasks.BaseOptions(model_asset_buffer=model)
    options = vision.ObjectDetectorOptions(base_options=base, score_threshold=THRESHOLD)
    with vision.ObjectDetector.create_from_options(options) as client:
        found = client.detect(mediapipe.Image.create_from_file(str(path))).detections
    seen = []
    for one in found:
        best, box = one.categories[0], one.bounding_box
        place = box.origin_y, box.origin_x, box.height, box.width
        seen.append((str(best.category_name), float(best.score), place))
    return seen


def test_the_file_states_the_threshold_and_the_measured_one_is_beside_it(made: Bundle) -> None:
    assert {"android/Detector.kt", "ios/Detector.swift", "python/detect.py", "test_vectors/05.rgb"} <= set(made.files)
    assert not any("lassif" in name for name in made.files)
    metadata = present(Metadata.read((made.path / "model.tflite").read_bytes()))
    assert metadata.threshold == pytest.approx(THRESHOLD)
    assert metadata.labels == COLOURS
    measured = (made.path / "model_measured.tflite").read_bytes()
    assert hashlib.sha256(measured).hexdigest() == made.evaluation.artefact_sha256
    document = json.loads((made.path / "bundle.json").read_text())
    assert document["threshold"] == THRESHOLD
    assert document["edits"] == [f"the metadata states the score from which on answers are shown: {THRESHOLD}"]


@pytest.mark.parametrize("bundle", ["made", "counter"])
def test_the_compiled_model_has_the_interpreters_outputs_in_order(bundle: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(bundle).model.content
    values = np.random.default_rng(1).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    expected = check.outputs(interpreter, values, 0, 255)
    compiled = CompiledModel.from_buffer(model)
    inputs, outputs = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
    inputs[0].write((values / 255).astype(np.float32).ravel())
    compiled.run_by_index(0, inputs, outputs)
    for output, value in zip(outputs, expected, strict=True):
        assert output.read(value.size, np.float32) == pytest.approx(value.ravel(), abs=1e-5)


def test_a_run_that_chose_no_threshold_ships_that_of_the_file(tmp_path: Path) -> None:
    made = export(detector_run(tmp_path, None).path, tmp_path / "bundle")
    assert made.model.threshold == Suppression().score
    assert "best F1" not in (made.path / "model_card.md").read_text()


def test_the_python_code_finds_what_mediapipe_finds(made: Bundle, images: list[Path], starts_processes: None) -> None:
    said = output_of(made.path / "python" / "detect.py", *images)
    rows = FOUND.findall(said)
    assert len(rows) == len(said.splitlines()) >= len(images)
    for path in images:
        theirs = seen_by_mediapipe(made.model.content, path)
        own = [row[1:] for row in rows if row[0] == path.name]
        assert len(own) == len(theirs)
        for (label, percent, *edges), (name, score, box) in zip(own, theirs, strict=True):
            assert label == name
            assert float(percent) >= 100 * THRESHOLD
            assert float(percent) == pytest.approx(100 * score, abs=2)
            top, left, bottom, right = map(int, edges)
            assert (top, left, bottom - top, right - left) == pytest.approx(box, abs=1)


def test_boxes_are_those_of_the_upright_image(made: Bundle, images: list[Path], tmp_path: Path) -> None:
    image = Image.open(images[0]).resize((SIDE, 2 * SIDE), Image.Resampling.NEAREST)
    image.save(tmp_path / "0.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it by a quarter, clockwise
    image.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "1.png", exif=exif)
    rows = FOUND.findall(ran(made.path / "python" / "detect.py", tmp_path / "0.png", tmp_path / "1.png")[1])
    upright, turned = ([row[1:] for row in rows if row[0] == name] for name in ("0.png", "1.png"))
    assert upright == turned != []


def test_the_checker_passes_the_bundle_on_two_threads_and_notices_other_boxes(made: Bundle, tmp_path: Path) -> None:
    def move(row: dict[str, Any]) -> None:
        row["boxes"][0]["box"][0] += 0.2

    assert json.loads((made.path / "bundle.json").read_text())["run_with"]["threads"] == 2
    code, said = ran(made.path / "check.py")
    assert (code, said[:3]) == (0, "ok:"), said
    assert "WRONG: 00.rgb: no box of label" in checked_otherwise(made, tmp_path, move)
    document = json.loads((made.path / "test_vectors" / "vectors.json").read_text())
    assert len(document["vectors"]) == 6
    for row in document["vectors"]:
        assert any(box["score"] > row["least"] + document["tolerance"] for box in row["boxes"])


def test_the_card_says_what_a_detector_does_and_how_well(made: Bundle) -> None:
    card = (made.path / "model_card.md").read_text()
    assert "Object detector with 3 classes" in card
    assert "| red | 90 % | 83 % | 62 % |" in card
    assert "40 images with 81 boxes of 3 classes" in card
    assert f"from a score of {THRESHOLD} on" in card
    assert "top-1" not in card


def test_there_is_no_program_for_an_edge_tpu(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no program for it that finds objects"):
        export(run.path, tmp_path / "bundle", targets=("edgetpu",))
    assert not (tmp_path / "bundle").exists()


def output(*boxes: dict[str, Any]) -> list[Any]:
    """The outputs of a detector that found some boxes."""
    edges = np.array([one["box"] for one in boxes]).reshape(-1, 4)
    labels, scores = (np.array([one[name] for one in boxes]) for name in ("label", "score"))
    return [edges, labels, scores, np.float32(len(boxes))]


@with_cases
def test_boxes_differ_by_more_than_the_tolerance(
    sure: dict[str, Any] | None, unsure: dict[str, Any] | None, difference: str
) -> None:
    found = [{**box, **changes} for box, changes in ((BOX, sure), (UNSURE, unsure)) if changes is not None]
    said = check.other_boxes(output(*found), ROW, 0.05)
    assert said.startswith(difference)
    assert bool(said) == bool(difference)


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder, row = tmp_path_factory.mktemp("counter"), evaluation("cells", "float32")
    request = {"task": COUNTING.name, "data": "boxes"}
    run = write_run(folder, [row], request=request, dataset={**DATASET, "train": 24, "validation": 8, "holdout": 8})
    by_class = {name: ClassBoxes(8, 6, 0.83, 0.62, 0.25) for name in COLOURS}
    answers = ImageAnswers(dict.fromkeys(COLOURS, 0.9), boxes=BoxFacts(LEAST_SCORE, None, by_class))
    replace_artefact(run, row, marker_file(folder / "cells.tflite").read_bytes(), answers)
    return export(run.path, folder / "bundle")


def test_the_file_is_the_measured_one_because_no_client_reads_a_threshold_of_a_map(counter: Bundle) -> None:
    assert {"android/Counter.kt", "ios/Counter.swift", "python/count.py", "test_vectors/05.rgb"} <= set(counter.files)
    assert not any("Detector" in name or "lassif" in name for name in counter.files)
    assert (counter.model.edits, counter.model.threshold) == ((), LEAST_SCORE)
    assert hashlib.sha256(counter.model.content).hexdigest() == counter.evaluation.artefact_sha256


def test_the_card_says_how_an_object_is_read_from_the_map(counter: Bundle) -> None:
    card = " ".join((counter.path / "model_card.md").read_text().split())
    assert "Object counter with 3 classes" in card
    assert "a cell with a score of at least 0.5 that is the highest of its class within 2 cells" in card
    assert "ObjectDetector" not in card


def test_the_python_code_finds_the_centres_that_were_judged(counter: Bundle, tmp_path: Path) -> None:
    write_cells(tmp_path / "cells", 3)
    images = sorted((tmp_path / "cells").glob("*.png"))
    said = output_of(counter.path / "python" / "count.py", *images)
    found = CentreFinder(counter.path / "model.tflite", InputSpec(SIDE, (127.5,) * 3, (127.5,) * 3))
    for path in images:
        own = [row[1:] for row in FOUND_OF_COUNTERS.findall(said) if row[0] == path.name]
        marks = found(path)
        sure = marks.scores >= LEAST_SCORE
        expected = zip(marks.labels[sure], 100 * marks.scores[sure], SIDE * marks.boxes[sure], strict=True)
        for (label, percent, *place), (index, score, box) in zip(own, expected, strict=True):
            assert label == COLOURS[index]
            assert float(percent) == pytest.approx(float(score), abs=0.1)
            assert [int(each) for each in place] == pytest.approx(box[:2].tolist(), abs=1)
        numbers = {label: int(number) for name, number, label in COUNTED.findall(said) if name == path.name}
        assert numbers == dict(zip(COLOURS, np.bincount(marks.labels[sure], minlength=3).tolist(), strict=True))
    assert FOUND_OF_COUNTERS.search(said)


def test_the_checker_passes_the_bundle_and_notices_another_score(counter: Bundle, tmp_path: Path) -> None:
    def raised(row: dict[str, Any]) -> None:
        row["scores"][4] += 0.2

    assert ran(counter.path / "check.py")[1].startswith("ok:")
    said = "WRONG: 00.rgb: a score of label 1 in row 0, column 1 is off by 0.2"
    assert said in checked_otherwise(counter, tmp_path, raised)


def test_scores_within_the_tolerance_are_the_same() -> None:
    answer = np.zeros((2, 2, 3), np.float32)
    row = {"scores": [0.04] * 12}
    assert check.other_scores([answer], row, 0.05) == ""
    assert check.other_scores([answer], row, 0.03).startswith("a score of label 0 in row 0, column 0 is off by 0.0400")
