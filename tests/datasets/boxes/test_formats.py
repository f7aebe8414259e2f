"""What all formats have in common, and how the format of a path is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.core.errors import UsageError
from advisor.datasets.boxes import list_boxes
from advisor.datasets.boxes.reading import survey_boxes
from tests.datasets.boxes.writers import WRITERS, Photo, photos, write, write_voc, write_yolo

LABELS = st.sampled_from(("cat", "dog", "traffic light", "Müll 垃圾", "a<b>&c", 'say "hi", then'))
LEFT, TOP = st.integers(0, 50), st.integers(0, 35)
SIDES = st.integers(4, 13)
OBJECTS = st.lists(
    st.builds(lambda label, a, b, w, h: (label, a, b, a + w, b + h), LABELS, LEFT, TOP, SIDES, SIDES), max_size=4
)


@pytest.mark.parametrize("name", WRITERS)
def test_boxes_survive_each_format(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=15)
    @given(st.lists(OBJECTS, min_size=2, max_size=4).filter(any))
    def check(found: list[list[tuple[str, int, int, int, int]]]) -> None:
        made = [Photo(f"{n:03d}", tuple(objects)) for n, objects in enumerate(found)]
        read = survey_boxes(WRITERS[name](tmp_path_factory.mktemp("set"), made))
        assert read.faults == ()
        for photo, boxes in zip(made, read.boxes, strict=True):
            expected = sorted((label, *map(float, edges)) for label, *edges in photo.objects)
            assert sorted((box.label, *(round(edge, 6) for edge in box.edges)) for box in boxes) == expected

    check()


@pytest.mark.parametrize("name", WRITERS)
def test_the_users_own_split_is_read_from_each_format(name: str, tmp_path: Path) -> None:
    made = [
        Photo(f"{part}{n}", photo.objects, part)
        for part in ("train", "val", "test")
        for n, photo in enumerate(photos(2, "cat"))
    ]
    entries = list_boxes(WRITERS[name](tmp_path / "set", made)).entries
    assert sorted((entry.path.stem[:2], entry.part) for entry in entries) == [
        *[("te", "holdout")] * 2, *[("tr", "train")] * 2, *[("va", "validation")] * 2,
    ]  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_an_image_that_is_missing_is_counted(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path / "set", photos(6, "cat"))
    next((tmp_path / "set").rglob("003.jpg")).unlink()
    read = survey_boxes(path)
    assert len(read.boxes) == 5
    assert [row.path.stem for row in read.images.dataset.rejected] == ["003"]


@pytest.mark.parametrize("name", WRITERS)
def test_one_class_is_enough(name: str, tmp_path: Path) -> None:
    assert survey_boxes(WRITERS[name](tmp_path / "set", photos(2, "face"))).classes == ("face",)


def test_all_images_in_one_part_are_no_split(tmp_path: Path) -> None:
    made = [Photo(photo.name, photo.objects, "train") for photo in photos(3, "cat")]
    assert {entry.part for entry in list_boxes(write_yolo(tmp_path, made)).entries} == {""}


def _refused(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        list_boxes(path)
    assert caught.value.hint
    return caught.value


def test_a_folder_without_boxes_names_the_formats(tmp_path: Path) -> None:
    assert "Pascal VOC" in _refused(tmp_path).hint


def test_a_folder_with_a_table_points_at_it(tmp_path: Path) -> None:
    write(tmp_path / "boxes.csv", "path\n")
    assert str(tmp_path / "boxes.csv") in _refused(tmp_path).hint


def test_two_formats_in_one_folder_are_named(tmp_path: Path) -> None:
    write_yolo(write_voc(tmp_path, photos(3, "cat")), photos(3, "cat"))
    assert "in 2 formats: Pascal VOC (XML files), YOLO (labels or class names)" in _refused(tmp_path).message
    assert len(list_boxes(tmp_path / "data.yaml").entries) == 6
    shutil.rmtree(tmp_path / "Annotations")


def test_a_missing_path_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "boxes").mkdir()
    assert "did you mean 'boxes'" in _refused(tmp_path / "bxoes").hint


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    assert "neither a table" in _refused(write(tmp_path / "set.txt", "x")).message
