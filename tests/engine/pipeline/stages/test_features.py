"""Features are kept picture by picture: a set that grew costs what it grew by."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.datasets.dataset import Dataset
from advisor.datasets.split import Split
from advisor.datasets.survey import survey
from advisor.engine.pipeline.images import Images, Part, Role
from advisor.engine.pipeline.materials import FloatModel
from advisor.engine.pipeline.stage import Results
from advisor.engine.pipeline.stages.backbone import features
from advisor.isolation import ChildPool
from advisor.training.features import AS_IT_IS, CAPTURED, CaptureAugmentation
from tests.datasets.folders import fill
from tests.engine.pipeline import jobs
from tests.engine.pipeline.walking import materials, walk
from tests.measurement import small_models

SIDE = 32
CARD = replace(load_catalogue()["mobilenet_v1_0.25_128"], input_size=SIDE)


@pytest.fixture
def children(starts_processes: None, tmp_path: Path) -> Iterator[ChildPool]:
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
    dataset: Dataset,
    backbone: Path,
    children: ChildPool,
    cache: Path,
    seen: CaptureAugmentation = AS_IT_IS,
) -> tuple[list[Path], str]:
    """Return the files of rows and their key; the backbone is there: the mean colour of an image."""
    everything = tuple(range(len(dataset.images)))
    given = materials(cache, Images(dataset, Split(everything, (), (), 0)), weights={CARD.name: None})
    read = features(CARD, Role.TRAIN, len(dataset.images), seen)
    source = replace(
        read.source, after=(), inputs=lambda *_: {"file": "of this test"},
        job=lambda _materials, _results, folders: partial(jobs.copy, backbone, folders.model),
        read=lambda _folder: FloatModel(backbone, "0" * 64),
    )  # fmt: skip
    parts = [walk(replace(part, after=(source,)), given, children) for part in read.parts]
    return parts, read.key(given, Results({source: FloatModel(backbone, "0" * 64)}))


def _rows(features: tuple[list[Path], str]) -> Any:
    return np.concatenate([np.load(part, allow_pickle=False) for part in features[0]])


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
    assert warm[1] == cold[1]


def test_a_removed_result_is_made_again(folder: Path, backbone: Path, children: ChildPool, tmp_path: Path) -> None:
    dataset = _dataset(folder)
    found = _extract(dataset, backbone, children, tmp_path / "cache")
    rows = _rows(found)
    for part in found[0]:
        shutil.rmtree(part.parent)
    np.testing.assert_array_equal(_rows(_extract(dataset, backbone, children, tmp_path / "cache")), rows)


def test_a_part_of_a_part_has_its_hashes() -> None:
    part = Part((0, 1, 2), tuple(Path(name) for name in "abc"), (0, 0, 1), "", hashes=("x", "y", "z"))
    assert part.between(1, 3).hashes == ("y", "z")
