"""Features are kept image by image; a user's finished file goes through the stages as it is; timings."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog import Card, Catalogue, Preprocessing, fetch_weights
from advisor.core import TrainingName, UnsupportedRecipe
from advisor.datasets import InputSpec, Split, Survey
from advisor.engine import Part, Results, Role, Scope, StageName, VariantStages, Workload, require_classes, resolve
from advisor.engine._pipeline.evaluation.accuracy import per_class
from advisor.engine._pipeline.graph import with_all_before
from advisor.engine._pipeline.images import Images
from advisor.engine._pipeline.materials import Artefact, FloatModel
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._pipeline.stages import jobs as stages_jobs
from advisor.engine._pipeline.stages.backbone import feature_stages
from advisor.engine._pipeline.stages.figures import SURVEY, SURVEYED_FROM, THOROUGH, effort_for, timing_stage
from advisor.engine._space.question_images import read_images
from advisor.isolation import ChildPool
from advisor.store import FetchOptions, MemberFile, WeightSource, sha256_file
from advisor.tasks.classification import _images as classification
from advisor.tflite import Metadata
from advisor.training import AS_IT_IS, CAPTURED, CaptureAugmentation
from tests.builders import present
from tests.datasets.folders import fill, make
from tests.engine.pipeline.walking import materials, walk
from tests.engine.plans import image_counts
from tests.measurement import small_models
from tests.tables import with_cases

SIDE = 32
CARD = replace(Catalogue.load()["mobilenet_v1_0.25_128"], input_size=SIDE)
COLOURS = ("red", "green", "blue")
SIDE_OF_OWN_FILE = 8
VIEW = InputSpec(SIDE_OF_OWN_FILE, (127.5,) * 3, (127.5,) * 3)
WORKLOAD = Workload(
    (TrainingName.HEAD_SUBSET, TrainingName.HEAD, TrainingName.FINETUNE_CACHED),
    ("float32", "int8"),
    image_counts(100, 20, 30),
)


@pytest.fixture
def children(starts_processes: None, tmp_path: Path) -> Iterator[ChildPool]:
    with ChildPool(tmp_path / "log.txt") as pool:
        yield pool


@pytest.fixture
def backbone(tmp_path: Path) -> Path:
    build, image = small_models.Builder.with_image(SIDE)
    (tmp_path / "backbone.tflite").write_bytes(build.finish({"image": image}, {"features": build.mean(image)}))
    return tmp_path / "backbone.tflite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path / "data" / "one", 6)
    fill(tmp_path / "data" / "two", 6)
    return tmp_path / "data"


def _extract(
    folder: Path, backbone: Path, children: ChildPool, cache: Path, seen: CaptureAugmentation = AS_IT_IS
) -> tuple[Any, str, list[Path]]:
    """Return rows, their key and their files; the backbone is there: the mean colour of an image."""
    dataset = Survey.read(folder).dataset
    split = Split(tuple(range(len(dataset.images))), (), (), 0)
    given = materials(cache, Images(dataset, split), weights={CARD.name: None})
    read, made = feature_stages(CARD, Role.TRAIN, len(dataset.images), seen), FloatModel(backbone, "0" * 64)
    source = replace(
        read.source, after=(), inputs=lambda *_: {"file": "of this test"},
        job=lambda *_: partial(print), read=lambda _: made,
    )  # fmt: skip
    parts = [walk(replace(part, after=(source,)), given, children) for part in read.parts]
    rows = np.concatenate([np.load(part, allow_pickle=False) for part in parts])
    return rows, read.key(given, Results({source: made})), parts


@pytest.mark.parametrize("seen", [AS_IT_IS, CAPTURED[0]])
def test_images_seen_before_are_not_read_again(
    folder: Path, backbone: Path, children: ChildPool, tmp_path: Path, seen: CaptureAugmentation
) -> None:
    first, _, _ = _extract(folder, backbone, children, tmp_path / "cache", seen)
    fill(folder / "two", 1, first=50)
    other = tmp_path / "other.tflite"  # sees otherwise: what it gives is told from what was kept
    build, image = small_models.Builder.with_image(SIDE)
    other.write_bytes(build.finish({"image": image}, {"features": build.mean(build.convolution(image, 3))}))
    rows, cold = (_extract(folder, other, children, tmp_path / cache, seen)[0] for cache in ("cache", "other"))
    new = np.array(["050" in photo.path.name for photo in Survey.read(folder).dataset.images])
    np.testing.assert_array_equal(rows[~new], first)
    np.testing.assert_array_equal(rows[new], cold[new])
    assert not np.isclose(cold[~new], first).all(axis=1).any()


def test_a_part_of_a_part_has_its_hashes() -> None:
    part = Part((0, 1, 2), tuple(Path(name) for name in "abc"), (0, 0, 1), "", hashes=("x", "y", "z"))
    assert part.between(1, 3).hashes == ("y", "z")


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    """A file that answers with the brightest of three colours."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "colours.tflite"
    said = Metadata("colours", COLOURS, (127.5,), (127.5,))
    path.write_bytes(said.write_into(small_models.brightness(SIDE_OF_OWN_FILE)))
    source = WeightSource("file", "tflite", "whole", MemberFile(str(path), sha256_file(path)))
    return replace(
        Catalogue.load()["mobilenet_v2_1.0_224"], name="colours", architecture="tflite_fixed",
        arguments=(("form", "int8"),),
        input_size=SIDE_OF_OWN_FILE, classes=3, weights=(source,), preprocessing=Preprocessing(VIEW.mean, VIEW.std),
    )  # fmt: skip


def read(folder: Path, **counts: int) -> Images:
    return read_images(resolve({"data": str(make(folder, **counts))}).question, lambda _: None)


def test_of_a_large_set_it_says_how_many_images_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classification, "TUNED_IMAGES", 20)
    images = read(tmp_path / "photos", red=20, blue=20)
    train = len(images.split.train)
    assert images.notes[-1] == f"A fine-tuning learns from 20 of the {train} images for training, and a head from all."


def test_it_is_neither_trained_nor_compressed_nor_calibrated(card: Card) -> None:
    assert WORKLOAD.variants_of(card) == ((TrainingName.HEAD, "int8"),)
    stages = VariantStages(card, TrainingName.HEAD, "int8", WORKLOAD)
    names = {stage.name for stage in with_all_before(stages.evaluation)}
    assert names == {StageName.CONVERT, StageName.SCORE, StageName.TIMING}
    assert stages.reference is stages
    assert stages.ships == stages.made == stages.compared
    assert (stages.head, stages.expected) == (None, None)


@pytest.mark.integration
def test_no_byte_of_it_changes(card: Card, tmp_path: Path) -> None:
    weights = fetch_weights(card, FetchOptions(offline=True))
    given = materials(tmp_path, read(tmp_path / "photos", red=20, blue=20), weights={card.name: weights})
    made = walk(VariantStages(card, TrainingName.HEAD, "int8", WORKLOAD).made, given)
    assert made.path.read_bytes() == weights.path.read_bytes()
    assert made.size_bytes == weights.path.stat().st_size
    assert made.figures["arena_bytes"] > 0


def test_a_class_that_it_does_not_know_is_named_and_answers_of_no_class_are_wrong(card: Card, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedRecipe, match=r"no class 'grean'.*'green'"):
        require_classes(card, read(tmp_path / "photos", red=20, grean=20))
    found = per_class([0, 2, 1, 1], [0, 0, 1, 1], ("a", "b"))
    assert found.per_class_recall == {"a": 0.5, "b": 1.0}
    assert found.confusion == ((1, 0), (0, 2))


def _image(folder: Path, colour: tuple[int, int, int]) -> Path:
    from PIL import Image

    path = folder / f"{colour}.png"
    Image.new("RGB", (20, 20), colour).save(path)
    return path


@with_cases
def test_columns_are_classes_first(card: Card, tmp_path: Path, classes: list[str], expected: list[int]) -> None:
    images = [_image(tmp_path, colour) for colour in ((250, 9, 9), (9, 250, 9), (9, 9, 250))]
    model = fetch_weights(card, FetchOptions(offline=True)).path
    stages_jobs.score_images(model, images, VIEW, tmp_path / "rows.npy", classes)
    rows = np.load(tmp_path / "rows.npy")
    assert rows.shape == (3, 3)
    assert rows.argmax(axis=1).tolist() == expected
    stages_jobs.classify_captures(model, images, VIEW, tmp_path / "labels.npy", classes)
    labels = np.load(tmp_path / "labels.npy")
    assert (labels == np.array(expected)).mean() > 0.8


def test_hundreds_of_configurations_are_timed_briefly() -> None:
    assert (effort_for(SURVEYED_FROM - 1), effort_for(SURVEYED_FROM)) == (THOROUGH, SURVEY)


@pytest.mark.integration
def test_a_timing_says_how_long_it_took_its_time(tmp_path: Path) -> None:
    path, events = small_models.saved(tmp_path, small_models.classifier()), list[StageEvent]()
    artefact = Artefact(path, sha256_file(path), path.stat().st_size)
    stage = timing_stage(Scope("card", "none", "float32"), artefact)
    found = walk(stage, materials(tmp_path, effort=SURVEY), listen=events.append)[1]
    assert present(found.timing).effort == SURVEY
    assert present(found.latency).value > 0
    assert [event.kind for event in events] == [EventKind.STARTED, EventKind.DONE]
