from __future__ import annotations

import os
from pathlib import Path

import pytest

from advisor.core.errors import StageError
from advisor.datasets.dataset import Dataset
from advisor.datasets.decode import require_unchanged
from advisor.datasets.survey import survey
from tests.datasets.folders import image, make


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return survey(make(tmp_path / "data", cat=9, dog=9)).dataset


def _require(dataset: Dataset) -> None:
    require_unchanged([image.path for image in dataset.images], [image.stamp for image in dataset.images])


def test_images_that_lie_as_they_lay_pass(dataset: Dataset) -> None:
    _require(dataset)


def test_a_image_that_went_and_one_that_changed_are_told_of(dataset: Dataset) -> None:
    dataset.images[2].path.unlink()
    image(1, (90, 60)).save(dataset.images[5].path)
    with pytest.raises(StageError, match=r"2 images changed .*002\.jpg") as caught:
        _require(dataset)
    assert "search again" in caught.value.hint


def test_a_image_replaced_by_one_of_the_same_size_is_seen_by_its_time(dataset: Dataset) -> None:
    path = dataset.images[0].path
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    with pytest.raises(StageError, match="1 image changed"):
        _require(dataset)
