"""A user's finished file goes through the stages as it is; its answers count by the names of the classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.cards import Card, Preprocessing
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import UnsupportedRecipe
from advisor.core.training import FINETUNE_CACHED, HEAD, HEAD_SUBSET
from advisor.datasets.images import InputSpec
from advisor.downloads.files import FetchOptions, MemberFile, WeightSource
from advisor.engine.pipeline.evaluation.accuracy import per_class
from advisor.engine.pipeline.graph import stages_of, with_all_before
from advisor.engine.pipeline.images import Images
from advisor.engine.pipeline.materials import Workload
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stages import jobs
from advisor.engine.pipeline.stages.backbone import require_classes
from advisor.engine.question import resolve
from advisor.engine.space.images import read_images
from advisor.store.files import sha256_file
from advisor.tflite.metadata import Metadata
from advisor.tflite.metadata_writer import write_metadata
from tests.datasets.folders import make
from tests.engine.pipeline.walking import materials, walk
from tests.engine.plans import image_counts
from tests.measurement import small_models

COLOURS = ("red", "green", "blue")
SIDE = 8
VIEW = InputSpec(SIDE, (127.5,) * 3, (127.5,) * 3)
WORKLOAD = Workload((HEAD_SUBSET, HEAD, FINETUNE_CACHED), ("float32", "int8"), image_counts(100, 20, 30))


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    """A file that answers with the brightest of three colours."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "colours.tflite"
    said = Metadata("colours", COLOURS, (127.5,), (127.5,))
    path.write_bytes(write_metadata(small_models.brightness(SIDE), said))
    source = WeightSource("file", "tflite", "whole", MemberFile(str(path), sha256_file(path)))
    return replace(
        load_catalogue()["mobilenet_v2_1.0_224"], name="colours", architecture="tflite_fixed",
        arguments=(("form", "int8"),),
        input_size=SIDE, classes=3, weights=(source,), preprocessing=Preprocessing(VIEW.mean, VIEW.std),
    )  # fmt: skip


def read(folder: Path, **counts: int) -> Images:
    images = read_images(resolve({"data": str(make(folder, **counts))}).question, lambda _: None)
    assert images is not None
    return images


def test_it_is_neither_trained_nor_compressed_nor_calibrated(card: Card) -> None:
    assert WORKLOAD.variants_of(card) == ((HEAD, "int8"),)
    stages = stages_of(card, HEAD, "int8", WORKLOAD)
    names = {stage.name for stage in with_all_before(stages.evaluation)}
    assert names == {StageName.CONVERT, StageName.SCORE, StageName.TIMING}
    assert stages.reference is stages
    assert stages.ships == stages.made == stages.compared
    assert (stages.head, stages.expected) == (None, None)


@pytest.mark.integration
def test_no_byte_of_it_changes(card: Card, tmp_path: Path) -> None:
    weights = fetch(card, FetchOptions(offline=True))
    given = materials(tmp_path, read(tmp_path / "photos", red=20, blue=20), weights={card.name: weights})
    made = walk(stages_of(card, HEAD, "int8", WORKLOAD).made, given)
    assert made.path.read_bytes() == weights.path.read_bytes()
    assert made.size_bytes == weights.path.stat().st_size
    assert made.figures["arena_bytes"] > 0


def test_a_class_that_it_does_not_know_is_named(card: Card, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedRecipe, match=r"no class 'grean'.*'green'"):
        require_classes(card, read(tmp_path / "photos", red=20, grean=20))


def _image(folder: Path, colour: tuple[int, int, int]) -> Path:
    from PIL import Image

    path = folder / f"{colour}.png"
    Image.new("RGB", (20, 20), colour).save(path)
    return path


@pytest.mark.parametrize(
    ("classes", "expected"),
    [(COLOURS, [0, 1, 2]), (("Blue", "red", "green"), [1, 2, 0]), (("blue", "red"), [1, 2, 0])],
)
def test_columns_are_the_classes_of_the_images_then_the_others(
    card: Card, tmp_path: Path, classes: tuple[str, ...], expected: list[int]
) -> None:
    images = [_image(tmp_path, colour) for colour in ((250, 9, 9), (9, 250, 9), (9, 9, 250))]
    model = fetch(card, FetchOptions(offline=True)).path
    jobs.score(model, images, VIEW, tmp_path / "rows.npy", classes)
    rows = np.load(tmp_path / "rows.npy")
    assert rows.shape == (3, 3)
    assert rows.argmax(axis=1).tolist() == expected
    jobs.captured(model, images, VIEW, tmp_path / "labels.npy", classes)
    labels = np.load(tmp_path / "labels.npy")
    assert (labels == np.array(expected)).mean() > 0.8


def test_an_answer_that_is_no_class_is_wrong() -> None:
    found = per_class([0, 2, 1, 1], [0, 0, 1, 1], ("a", "b"))
    assert found.per_class_recall == {"a": 0.5, "b": 1.0}
    assert found.confusion == ((1, 0), (0, 2))
