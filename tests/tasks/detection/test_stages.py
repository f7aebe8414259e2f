"""Stages of a detector, without training."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog import Card, Catalogue, Preprocessing, fetch_weights
from advisor.core import FLOAT, Status, TrainingName
from advisor.datasets import STAYING, InputSpec
from advisor.engine import (
    FloatModel,
    Images,
    Pool,
    Purpose,
    Question,
    Role,
    Scope,
    StageName,
    VariantStages,
    Workload,
    resolve,
)
from advisor.engine._pipeline.graph import with_all_before
from advisor.engine._pipeline.materials import Artefact
from advisor.engine._pipeline.stage import StageAborted
from advisor.engine._pipeline.stages.artefacts import CardForms
from advisor.engine._space.question_images import read_images
from advisor.measurement import CentreFinder, Detections, Detector
from advisor.store import FetchOptions, MemberFile, WeightSource, sha256_file
from advisor.tasks._counting import COUNTING
from advisor.tasks.anomaly import ANOMALY
from advisor.tasks.detection import DETECTION, _jobs as jobs
from advisor.tflite import Metadata, Suppression, with_named_outputs
from tests.builders import must_fail
from tests.datasets.boxes.writers import photos, write_table
from tests.detectors import COLOURS, SIDE, detector_file, write_cells
from tests.engine.pipeline.boxed import SIZE, boxed_images, save_found
from tests.engine.pipeline.walking import materials, walk
from tests.tasks.detection.test_judging import held_out
from tests.tflite.graphs import tiny_detector, tiny_marker

CARD = Catalogue.load()["mobilenet_v2_1.0_224"]
WORKLOAD = Workload((TrainingName.HEAD,), ("float32",), boxed_images().counts, Question(DETECTION.name))
VIEW = InputSpec(2, (127.5,) * 3, (127.5,) * 3)
ANCHORS = np.array([[0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.4, 0.2], [0.9, 0.9, 0.4, 0.4]], np.float32)


def test_boxes_cannot_be_trained_on_a_file_of_the_user(tmp_path: Path) -> None:
    card = replace(CARD, architecture="tflite_file")
    given = materials(tmp_path, boxed_images(), weights={card.name: None})
    ended = must_fail(
        StageAborted, "", walk, DETECTION.model(card, TrainingName.HEAD, Purpose.COMPARE, WORKLOAD), given
    )
    assert (ended.status, ended.stage) == (Status.SKIPPED, StageName.HEAD)
    assert ended.reason.startswith("a file of your own has no graph that boxes can be trained on")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    """The card of a detector of the user's, whose classes are in another order than the images'."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "own-cache"))
    path = named(detector_file(tmp_path / "cells.tflite"))
    source = WeightSource("file", "tflite", "whole", MemberFile(str(path), sha256_file(path)))
    return replace(
        CARD, name="cells", architecture="tflite_detector", input_size=SIDE, classes=len(COLOURS), weights=(source,),
        preprocessing=Preprocessing((127.5,) * 3, (127.5,) * 3),
    )  # fmt: skip


def cells(tmp_path: Path, *names: str) -> Images:
    """Images on disk with coloured cells, under these names of red, green and blue."""
    table = write_cells(tmp_path / "cells", names=names or COLOURS)
    return read_images(resolve({"task": DETECTION.name, "data": str(table)}).question, lambda _: None)


def test_a_detector_of_the_user_is_taken_as_it_is(tmp_path: Path, own: Card) -> None:
    file = fetch_weights(own, FetchOptions(offline=True))
    given = materials(tmp_path / "cache", cells(tmp_path), weights={own.name: file})
    compared, shipped, _ = (
        walk(DETECTION.model(own, TrainingName.HEAD, purpose, WORKLOAD), given) for purpose in Purpose
    )
    assert compared.sha256 == shipped.sha256
    assert compared.path.read_bytes() == with_named_outputs(file.path.read_bytes())


def test_a_fixed_detector_is_read_scored_under_the_names_of_the_images_and_timed(tmp_path: Path, own: Card) -> None:
    finished = replace(own, architecture="tflite_fixed_detector", arguments=(("form", "int8"),))
    stages = VariantStages(finished, TrainingName.HEAD, "int8", WORKLOAD)
    names = {stage.name for stage in with_all_before(stages.evaluation)}
    assert names == {StageName.CONVERT, StageName.SCORE, StageName.TIMING}
    file, images = fetch_weights(own, FetchOptions(offline=True)), cells(tmp_path)
    assert images.classes != COLOURS
    given = materials(tmp_path / "cache", images, weights={own.name: file})
    assert walk(stages.ships, given).path.read_bytes() == file.path.read_bytes()
    judged, _ = held_out(walk(stages.scoring(Scope("cells"), stages.ships, Role.HOLDOUT, 1.0), given), images)
    assert judged.value > 95


def test_a_detector_that_lacks_a_class_of_the_images_is_skipped(tmp_path: Path, own: Card) -> None:
    file = fetch_weights(own, FetchOptions(offline=True))
    given = materials(tmp_path / "cache", cells(tmp_path, "red", "greem", "blue"), weights={own.name: file})
    ended = must_fail(StageAborted, "", walk, DETECTION.model(own, TrainingName.HEAD, Purpose.COMPARE, WORKLOAD), given)
    assert ended.status is Status.SKIPPED
    assert "has no class 'greem' (did you mean 'green'?)" in ended.reason


def named(path: Path) -> Path:
    """Name the outputs of a detector in its file."""
    content = path.read_bytes()
    path.write_bytes(Metadata.read(content).write_into(with_named_outputs(content)))
    return path


def test_a_file_of_the_user_names_its_own_labels_and_was_not_retrained(tmp_path: Path, own: Card) -> None:
    given = materials(tmp_path, cells(tmp_path), weights={own.name: None})
    asked = replace(given, question=Question(DETECTION.name))
    said = CardForms(own, TrainingName.HEAD, Purpose.SHIP).metadata(asked)
    assert said.labels == COLOURS
    assert said.description.startswith("Object detector cells, not retrained")


def test_a_detector_is_trained_where_a_gpu_is_seen_and_reads_its_images(tmp_path: Path) -> None:
    given = materials(tmp_path, boxed_images(), weights={CARD.name: None})
    stage = DETECTION.model(CARD, TrainingName.HEAD, Purpose.COMPARE, WORKLOAD)
    assert stage.resources.pool is Pool.TRAINERS
    assert stage.reads(given) == given.part(Role.TRAIN)


@pytest.fixture
def images(tmp_path: Path) -> Images:
    """Images on disk with a box of each of two classes."""
    table = write_table(tmp_path / "boxes", photos(40, "cat", "dog"))
    return read_images(resolve({"task": DETECTION.name, "data": str(table)}).question, lambda _: None)


def suppressed() -> bytes:
    return Suppression(12, score=0.5, overlap=1.0).append_to(tiny_detector(), ANCHORS)


@pytest.mark.parametrize(("content", "finder"), [(suppressed, Detector), (tiny_marker, CentreFinder)])
def test_what_a_file_finds_in_each_image_of_a_part_is_written(
    tmp_path: Path, images: Images, content: Callable[[], bytes], finder: type[Detector | CentreFinder]
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content())
    stage = DETECTION.score(Scope("tiny"), VIEW, Artefact.at(path, sha256_file(path)), Role.HOLDOUT, 1.0)
    found, run = Detections.load_all(walk(stage, materials(tmp_path / "cache", images))), finder(path, VIEW)
    for one, image in zip(found, images.part(Role.HOLDOUT).paths, strict=True):
        assert one.boxes.tolist() == run(image).boxes.tolist()
        assert one.labels.tolist() == run(image).labels.tolist()
    assert any(len(one.labels) for one in found)


def test_the_kind_of_head_follows_from_the_task(tmp_path: Path) -> None:
    given = materials(tmp_path, boxed_images(), weights={CARD.name: None})
    boxes, marks = (
        DETECTION.model(CARD, TrainingName.HEAD, Purpose.COMPARE, replace(WORKLOAD, question=Question(task)))
        for task in (DETECTION.name, COUNTING.name)
    )
    assert dict(boxes.inputs(given, {})) == {**marks.inputs(given, {}), "task": DETECTION.name}


def test_fine_tuning_starts_from_the_compared_head(tmp_path: Path) -> None:
    given = materials(tmp_path, boxed_images(), weights={CARD.name: None})
    head = DETECTION.model(CARD, TrainingName.HEAD, Purpose.COMPARE, WORKLOAD)
    top, every = (
        DETECTION.model(CARD, each, Purpose.COMPARE, WORKLOAD)
        for each in (TrainingName.FINETUNE_TOP, TrainingName.FINETUNE_ALL)
    )
    assert (top.after, top.name, every.name) == ((head,), StageName.FINETUNE_TOP, StageName.FINETUNE_ALL)
    first, second = ({head: FloatModel(tmp_path, sha256)} for sha256 in ("1", "2"))
    assert top.inputs(given, first) != top.inputs(given, second)
    assert top.inputs(given, first) != every.inputs(given, first)


@pytest.mark.parametrize("training", [TrainingName.HEAD, TrainingName.FINETUNE_ALL])
def test_the_network_that_ships_goes_on_from_the_compared_one(tmp_path: Path, training: str) -> None:
    given = materials(tmp_path, boxed_images(), weights={CARD.name: None})
    compared, all_images = (DETECTION.model(CARD, training, each, WORKLOAD) for each in (Purpose.COMPARE, Purpose.ALL))
    ships = DETECTION.model(CARD, training, Purpose.SHIP, WORKLOAD).after[0]
    assert ships.after == all_images.after == (compared,)
    assert ships.cost_s < 0.8 * compared.cost_s
    assert "goes_on" in ships.inputs(given, {compared: FloatModel(tmp_path, "1")})
    other = replace(WORKLOAD, question=Question(ANOMALY.name))
    assert not ANOMALY.model(CARD, TrainingName.HEAD, Purpose.SHIP, other).after


def test_the_scores_of_the_file_that_ships_are_calibrated_by_what_the_compared_float_file_finds() -> None:
    stage = DETECTION.model(CARD, TrainingName.HEAD, Purpose.SHIP, WORKLOAD)
    made, scored = stage.after
    assert (stage.name, made.name, scored.name) == (StageName.CONFIDENCE, StageName.HEAD, StageName.SCORE)
    assert scored == VariantStages(CARD, TrainingName.HEAD, FLOAT, WORKLOAD).scored
    assert COUNTING.model(CARD, TrainingName.HEAD, Purpose.SHIP, WORKLOAD).name == StageName.HEAD


def test_calibration_leaves_a_file_whose_scores_are_right_as_it_is(tmp_path: Path) -> None:
    images, path = boxed_images(), tmp_path / "found.npz"
    save_found(path, images, Role.VALIDATION)
    true = [list(rows) for rows in images.part(Role.VALIDATION).objects]
    file = detector_file(tmp_path / "cells.tflite")
    jobs.calibrate(file, path, true, [SIZE] * len(true), len(images.classes), tmp_path / "made.tflite")
    assert (tmp_path / "made.tflite").read_bytes() == file.read_bytes()


def test_images_are_captured_under_each_condition_that_leaves_objects_in_their_places(tmp_path: Path) -> None:
    files = sorted(write_cells(tmp_path / "cells", 2).parent.glob("*.png"))
    model, view = (
        detector_file(tmp_path / "cells.tflite", order=(0, 1, 2, 3)),
        InputSpec(SIDE, (127.5,) * 3, (127.5,) * 3),
    )
    jobs.detect(True, model, files, view, tmp_path / "captured.npz", COLOURS)
    jobs.detect(False, model, files, view, tmp_path / "plain.npz", COLOURS)
    found, plain = Detections.load_all(tmp_path / "captured.npz"), Detections.load_all(tmp_path / "plain.npz")
    assert len(found) == len(files) * len(STAYING)
    cast = [place for place, (one, at) in enumerate(STAYING) if (one.name, at) == ("colour cast", 1.0)]
    for image, one in enumerate(plain):
        assert set(found[image * len(STAYING) + cast[0]].labels[:2]) == set(one.labels[:2])
