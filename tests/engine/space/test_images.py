"""Images of a question, by its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.core.errors import UsageError
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.question import Question, resolve
from advisor.engine.space.images import read_images
from advisor.tasks import CLASSIFICATION, DETECTION
from tests.datasets.boxes.writers import WRITERS, Photo, photos, write_table, write_voc
from tests.datasets.folders import make


def asked(task: str = DETECTION.name, **options: Any) -> Question:
    return resolve({"task": task, "data": "boxes", **options}).question


def read(data: Path, task: str = DETECTION.name) -> Images:
    images = read_images(asked(task, data=str(data)), lambda _: None)
    assert images is not None
    return images


def test_boxes_are_read_in_shares_of_their_upright_image(tmp_path: Path) -> None:
    made = photos(40, "dog", "cat")  # images of 64 by 48 pixels
    images = read(write_table(tmp_path, made))
    assert images.boxes is not None
    assert images.classes == images.boxes.classes == ("cat", "dog")
    assert set(images.boxes.sizes) == {(64, 48)}
    by_name = {
        image.path.stem: objects for image, objects in zip(images.dataset.images, images.boxes.objects, strict=True)
    }
    for photo in made:
        expected = [("cat", "dog").index(name) for name, *_ in photo.objects]
        assert [label for label, *_ in by_name[photo.name]] == expected
        for (_, *shares), (_, left, top, right, bottom) in zip(by_name[photo.name], photo.objects, strict=True):
            assert shares == pytest.approx([top / 48, left / 64, bottom / 48, right / 64])


def test_images_with_boxes_are_split_and_each_part_has_its_objects(tmp_path: Path) -> None:
    images = read(write_voc(tmp_path, photos(60, "cat", "dog")))
    parts = [images.part(role) for role in (Role.TRAIN, Role.VALIDATION, Role.HOLDOUT)]
    assert sorted(index for part in parts for index in part.indices) == list(range(60))
    assert all(len(part.objects) == len(part.paths) > 5 for part in parts)
    assert images.overview.boxes["holdout"] == {"cat": len(parts[2].paths), "dog": len(parts[2].paths)}


def test_what_a_reader_of_boxes_may_not_expect_is_told_and_kept(tmp_path: Path) -> None:
    parts = ("train",) * 20 + ("val",) * 6 + ("test",) * 6
    made = [
        Photo(photo.name, photo.objects if part == "train" else photo.objects[:1], part)
        for photo, part in zip(photos(32, "cat", "dog"), parts, strict=True)
    ]
    said: list[str] = []
    images = read_images(asked(data=str(write_table(tmp_path, made))), said.append)
    assert images is not None
    note = "The holdout part has no box of dog: no average precision there."
    assert note in said
    assert note in images.notes


def test_too_few_boxes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fewer than 8 images with a box of 'cat'"):
        read(write_table(tmp_path, photos(6, "cat")))


def test_images_with_classes_have_no_boxes(tmp_path: Path) -> None:
    images = read(make(tmp_path, cat=20, dog=20), CLASSIFICATION.name)
    assert (images.boxes, images.classes) == (None, ("cat", "dog"))


@pytest.mark.parametrize("writer", ["voc", "coco", "yolo"])
def test_boxes_that_are_searched_for_classes_are_refused_with_the_task_to_add(tmp_path: Path, writer: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(WRITERS[writer](tmp_path, photos(40, "cat", "dog")), CLASSIFICATION.name)
    assert refused.value.hint.endswith("add --task object-detection")


def test_a_folder_without_boxes_is_refused_with_its_own_hint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as refused:
        read(tmp_path / "empty", CLASSIFICATION.name)
    assert refused.value.hint
    assert "--task" not in refused.value.hint
