"""Features are kept picture by picture: a set that grew costs what it grew by."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.datasets.dataset import Dataset
from advisor.datasets.split import Split
from advisor.datasets.survey import survey
from advisor.engine.execution.machine import Machine
from advisor.engine.pipeline.context import Context, Images, Part
from advisor.engine.pipeline.stages.backbone import Backbones, Features
from advisor.engine.pipeline.stages.runner import Form, StageRunner
from advisor.engine.question import Question
from advisor.isolation import ChildPool
from advisor.store import ArtifactCache
from advisor.training.capture_augmentation import AS_IT_IS, CAPTURED, CaptureAugmentation
from tests.datasets.folders import fill
from tests.measurement import small_models

SIDE = 32
CARD = replace(load_catalogue()["mobilenet_v1_0.25_128"], input_size=SIDE)


class _Cut(Backbones):
    """Has its backbone at once: the mean colour of a picture."""

    def __init__(self, keeper: StageRunner, path: Path) -> None:
        super().__init__(keeper, {CARD.name: None})
        self._path = path

    async def backbone(self, card: Any) -> Form:
        return Form(self._path, "0" * 64)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[ChildPool]:
    with ChildPool(tmp_path / "log.txt") as pool:
        yield pool


@pytest.fixture
def backbone(tmp_path: Path) -> Path:
    build = small_models.Builder()
    image = build.input(SIDE)
    (tmp_path / "backbone.tflite").write_bytes(build.finish({"image": image}, {"features": build.mean(image)}))
    return tmp_path / "backbone.tflite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path / "data" / "one", 6)
    fill(tmp_path / "data" / "two", 6)
    return tmp_path / "data"


def _dataset(folder: Path) -> Dataset:
    return survey(folder).dataset


def _extract(
    dataset: Dataset, backbone: Path, children: ChildPool, cache: Path, seen: CaptureAugmentation = AS_IT_IS
) -> Features:
    everything = tuple(range(len(dataset.images)))
    images = Images(dataset, Split(everything, (), (), 0))

    def quiet(*_: str) -> None:
        pass

    context = Context(Question(), images, ArtifactCache(cache), Machine(1), children, children, quiet)
    backbones = _Cut(StageRunner(context, {CARD.name: 0}), backbone)
    # In a thread of its own: a browser's driver may have left a running loop in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, backbones.features(CARD, images.train, seen)).result()


def _rows(features: Features) -> Any:
    return np.concatenate([np.load(part, allow_pickle=False) for part in features.parts])


@pytest.mark.parametrize("seen", [AS_IT_IS, CAPTURED[0]])
def test_images_seen_before_are_not_read_again(
    folder: Path, backbone: Path, children: ChildPool, tmp_path: Path, seen: CaptureAugmentation
) -> None:
    first = _rows(_extract(_dataset(folder), backbone, children, tmp_path / "cache", seen))
    fill(folder / "two", 1, first=50)
    grown = _dataset(folder)
    other = tmp_path / "other.tflite"  # sees otherwise: what it gives is told from what was kept
    build = small_models.Builder()
    image = build.input(SIDE)
    other.write_bytes(build.finish({"image": image}, {"features": build.mean(build.convolution(image, 3))}))
    rows = _rows(_extract(grown, other, children, tmp_path / "cache", seen))
    cold = _rows(_extract(grown, other, children, tmp_path / "other", seen))
    new = np.array(["050" in photo.path.name for photo in grown.images])
    np.testing.assert_array_equal(rows[~new], first)
    np.testing.assert_array_equal(rows[new], cold[new])
    assert not np.isclose(cold[~new], first).all(axis=1).any()


def test_features_do_not_depend_on_what_was_known(
    folder: Path, backbone: Path, children: ChildPool, tmp_path: Path
) -> None:
    _extract(_dataset(folder), backbone, children, tmp_path / "cache")
    fill(folder / "one", 3, first=50)
    grown = _dataset(folder)
    warm = _extract(grown, backbone, children, tmp_path / "cache")
    cold = _extract(grown, backbone, children, tmp_path / "other")
    np.testing.assert_array_equal(_rows(warm), _rows(cold))
    assert warm.key == cold.key


def test_a_removed_result_is_made_again(folder: Path, backbone: Path, children: ChildPool, tmp_path: Path) -> None:
    dataset = _dataset(folder)
    found = _extract(dataset, backbone, children, tmp_path / "cache")
    rows = _rows(found)
    for part in found.parts:
        shutil.rmtree(part.parent)
    np.testing.assert_array_equal(_rows(_extract(dataset, backbone, children, tmp_path / "cache")), rows)


def test_a_part_of_a_part_has_its_hashes() -> None:
    part = Part((0, 1, 2), tuple(Path(name) for name in "abc"), (0, 0, 1), "", hashes=("x", "y", "z"))
    assert part.between(1, 3).hashes == ("y", "z")
