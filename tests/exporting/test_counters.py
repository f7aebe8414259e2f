"""The bundle of a network that counts objects: its code finds the centres that were judged."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from advisor.core.box_facts import BoxFacts, ClassBoxes
from advisor.core.evaluation_facts import ImageAnswers
from advisor.datasets.images import InputSpec
from advisor.exporting.bundle import Bundle, export
from advisor.exporting.shipped import check
from advisor.measurement.counting import LEAST_SCORE, CentreFinder
from advisor.tasks import COUNTING
from tests.builders import evaluation
from tests.detectors import COLOURS, SIDE, marker_file, write_cells
from tests.exporting.conftest import replace_artefact
from tests.exporting.test_detectors import DATASET, ran
from tests.run_folders import write_run

FOUND = re.compile(r"(\d+\.png): (\w+) ([\d.]+) %, down, across: (\d+), (\d+)")
COUNTED = re.compile(r"(\d+\.png): (\d+) (\w+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder, row = tmp_path_factory.mktemp("counter"), evaluation("cells", "float32")
    request = {"task": COUNTING.name, "data": "boxes"}
    run = write_run(folder, [row], request=request, dataset={**DATASET, "train": 24, "validation": 8, "holdout": 8})
    by_class = {name: ClassBoxes(8, 6, 0.83, 0.62, 0.25) for name in COLOURS}
    answers = ImageAnswers(dict.fromkeys(COLOURS, 0.9), boxes=BoxFacts(LEAST_SCORE, None, by_class))
    replace_artefact(run, row, marker_file(folder / "cells.tflite").read_bytes(), answers)
    return export(run.path, folder / "bundle")


def test_it_has_code_and_vectors_for_counting(made: Bundle) -> None:
    assert {"android/Counter.kt", "ios/Counter.swift", "python/count.py", "test_vectors/05.rgb"} <= set(made.files)
    assert not any("Detector" in name or "lassif" in name for name in made.files)


def test_the_file_is_the_measured_one_because_no_client_reads_a_threshold_of_a_map(made: Bundle) -> None:
    assert (made.model.edits, made.model.threshold) == ((), LEAST_SCORE)
    assert hashlib.sha256(made.model.content).hexdigest() == made.evaluation.artefact_sha256


@pytest.mark.integration
def test_the_python_code_finds_the_centres_that_were_judged(made: Bundle, tmp_path: Path) -> None:
    write_cells(tmp_path / "cells", 6)
    images = sorted((tmp_path / "cells").glob("*.png"))
    done = ran(made.path / "python" / "count.py", *images)
    assert done.returncode == 0, done.stderr
    found = CentreFinder(made.path / "model.tflite", InputSpec(SIDE, (127.5,) * 3, (127.5,) * 3))
    for path in images:
        own = [row[1:] for row in FOUND.findall(done.stdout) if row[0] == path.name]
        marks = found(path)
        sure = marks.scores >= LEAST_SCORE
        expected = zip(marks.labels[sure], 100 * marks.scores[sure], SIDE * marks.boxes[sure], strict=True)
        for (label, percent, *place), (index, score, box) in zip(own, expected, strict=True):
            assert label == COLOURS[index]
            assert float(percent) == pytest.approx(float(score), abs=0.1)
            assert [int(each) for each in place] == pytest.approx(box[:2].tolist(), abs=1)
        numbers = {label: int(number) for name, number, label in COUNTED.findall(done.stdout) if name == path.name}
        assert numbers == dict(zip(COLOURS, np.bincount(marks.labels[sure], minlength=3).tolist(), strict=True))
    assert FOUND.search(done.stdout)


@pytest.mark.integration
def test_the_checker_passes_the_bundle_and_notices_another_score(made: Bundle, tmp_path: Path) -> None:
    assert ran(made.path / "check.py").stdout.startswith("ok:")
    own = Path(shutil.copytree(made.path, tmp_path / "bundle"))
    path, sums = own / "test_vectors" / "vectors.json", own / "SHA256SUMS"
    old, document = hashlib.sha256(path.read_bytes()).hexdigest(), json.loads(path.read_text())
    document["vectors"][0]["scores"][4] += 0.2
    path.write_text(json.dumps(document))
    sums.write_text(sums.read_text().replace(old, hashlib.sha256(path.read_bytes()).hexdigest()))
    done = ran(own / "check.py")
    assert done.returncode == 1
    assert "WRONG: 00.rgb: a score of label 1 in row 0, column 1 is off by 0.2" in done.stdout


def test_scores_within_the_tolerance_are_the_same() -> None:
    answer = np.zeros((2, 2, 3), np.float32)
    row = {"scores": [0.04] * 12}
    assert check.other_scores([answer], row, 0.05) == ""
    assert check.other_scores([answer], row, 0.03).startswith("a score of label 0 in row 0, column 0 is off by 0.0400")


def test_the_card_says_how_an_object_is_read_from_the_map(made: Bundle) -> None:
    card = " ".join((made.path / "model_card.md").read_text().split())
    assert "Object counter with 3 classes" in card
    assert "a cell with a score of at least 0.5 that is the highest of its class within 2 cells" in card
    assert "ObjectDetector" not in card
