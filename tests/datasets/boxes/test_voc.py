from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes import list_boxes
from advisor.datasets.boxes.reading import survey_boxes
from tests.datasets.boxes.writers import Photo, photos, save, write, write_voc, xml


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_voc(tmp_path / "set", photos(5, "cat", "dog"))


def _reasons(root: Path) -> dict[str, str]:
    return {row.path.name: row.reason for row in list_boxes(root).rejected}


def test_an_annotation_without_its_image_is_counted_by_name(root: Path) -> None:
    (root / "JPEGImages" / "002.jpg").unlink()
    assert _reasons(root) == {"002.xml": "its image '002.jpg' is missing"}


def test_an_image_without_annotation_is_counted(root: Path) -> None:
    save(root / "JPEGImages" / "new.jpg")
    assert _reasons(root) == {"new.jpg": "it has no annotation"}


def test_a_damaged_annotation_is_counted_with_its_line(root: Path) -> None:
    write(root / "Annotations" / "002.xml", "<annotation>\n<object></annotation>")
    assert _reasons(root) == {"002.xml": "not an annotation: line 2: mismatched tag"}


def test_a_wrong_edge_is_counted_with_file_and_line(root: Path) -> None:
    photo = Photo("002", (("cat", 5, 5, 20, 20), ("dog", 30, 5, 10, 20)))
    write(root / "Annotations" / "002.xml", xml(photo))
    (fault,) = list_boxes(root).faults
    assert fault.path.name == "002.jpg"
    assert fault.place == "line 6 of '002.xml'"
    assert "right edge is left of the left one" in fault.reason


def test_an_object_without_a_box_is_counted(root: Path) -> None:
    write(root / "Annotations" / "002.xml", xml(photos(3, "cat")[2], "<object><name>cat</name></object>"))
    assert [fault.reason for fault in list_boxes(root).faults] == ["an edge is missing or not a number"]


def test_the_boxes_of_parts_of_an_object_are_no_objects(root: Path) -> None:
    part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part>"
    text = xml(photos(3, "cat")[2]).replace("</object>", f"{part}</object>")
    write(root / "Annotations" / "002.xml", text)
    assert survey_boxes(root).contents[2] == {"cat": 1}


def test_annotations_may_lie_beside_the_images_of_each_part(tmp_path: Path) -> None:
    for part in ("train", "valid"):
        for n, photo in enumerate(photos(2, "cat")):
            save(tmp_path / part / f"{photo.name}.jpg", n)
            write(tmp_path / part / f"{photo.name}.xml", xml(photo))
    assert [entry.part for entry in list_boxes(tmp_path).entries] == ["train"] * 2 + ["validation"] * 2


def test_an_image_is_found_by_the_name_in_the_annotation_too(root: Path) -> None:
    (root / "Annotations" / "002.xml").rename(root / "Annotations" / "other.xml")
    assert {entry.path.name for entry in list_boxes(root).entries} >= {"002.jpg"}


def test_of_two_annotations_of_an_image_the_first_counts(root: Path) -> None:
    write(root / "Annotations" / "again.xml", xml(photos(3, "cat")[2]))
    assert _reasons(root) == {"again.xml": "it has '002.jpg' a second time; the first counts"}


def test_trainval_is_the_training_part_where_train_is_missing(root: Path) -> None:
    write(root / "ImageSets" / "Main" / "trainval.txt", "000\n001\n002\n")
    write(root / "ImageSets" / "Main" / "test.txt", "003\n004\n")
    assert [entry.part for entry in list_boxes(root).entries] == ["train"] * 3 + ["holdout"] * 2


def test_lists_of_single_classes_are_no_parts(root: Path) -> None:
    write(root / "ImageSets" / "Main" / "cat_train.txt", "000 -1\n001 1\n")
    assert {entry.part for entry in list_boxes(root).entries} == {""}


def test_an_image_in_two_parts_is_refused_with_both_lines(root: Path) -> None:
    write(root / "ImageSets" / "Main" / "train.txt", "000\n001\n")
    write(root / "ImageSets" / "Main" / "test.txt", "\n002\n001\n")
    with pytest.raises(UsageError, match=r"'001' is in two parts .*line 3 of 'test.txt' and line 2 of 'train.txt'"):
        list_boxes(root)


def test_a_listed_name_without_annotation_is_counted_and_unlisted_images_have_no_part(root: Path) -> None:
    write(root / "ImageSets" / "Main" / "train.txt", "000\n001\nnowhere\n")
    write(root / "ImageSets" / "Main" / "test.txt", "002\n")
    assert _reasons(root) == {"nowhere": "it is listed in ImageSets, but has no annotation"}
    assert [entry.part for entry in list_boxes(root).entries] == ["train", "train", "holdout", "", ""]


def test_a_name_that_leads_out_of_the_folder_is_not_followed(root: Path) -> None:
    outside = save(root.parent / "secret.jpg")
    write(root / "Annotations" / "x.xml", xml(Photo("../../secret")))
    assert outside not in {entry.path for entry in list_boxes(root).entries}
    assert "x.xml" in _reasons(root)


@pytest.mark.integration
def test_bccd_is_read_whole_with_its_own_split(bccd: Path) -> None:
    read = survey_boxes(bccd)
    assert len(read.boxes) == 364
    assert read.boxes_per_class == {"RBC": 4153, "WBC": 372, "Platelets": 361}
    assert [fault.place for fault in read.faults] == [
        "line 158 of 'BloodImage_00338.xml'",
        "line 50 of 'BloodImage_00343.xml'",
    ]
    parts = [image.part for image in read.images.dataset.images]
    assert (parts.count("train"), parts.count("validation"), parts.count("holdout")) == (205, 87, 72)
