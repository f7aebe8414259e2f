"""Boxes as other tools write them: names that YAML takes for other values, key points, identifiers, and paths."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from advisor.datasets import Box, BoxSurvey, survey_boxes
from tests.requirements import shared_case

SIDE = 100


def survey_case(name: str, folder: Path) -> BoxSurvey:
    zipfile.ZipFile(shared_case(f"{name}.zip")).extractall(folder)
    return survey_boxes(folder)


def write_yolo(folder: Path, yaml: str, *rows: str) -> Path:
    """Write one image, its label file and ``data.yaml``."""
    for name in ("images", "labels"):
        (folder / name).mkdir(parents=True)
    Image.new("RGB", (SIDE, SIDE), "grey").save(folder / "images" / "1.png")
    (folder / "labels" / "1.txt").write_text("\n".join(rows))
    (folder / "data.yaml").write_text(yaml)
    return folder


def write_coco(folder: Path, annotation: dict[str, Any], **image: Any) -> Path:
    """Write one image, and a COCO file with one annotation of category 1."""
    (folder / "images").mkdir(parents=True)
    Image.new("RGB", (SIDE, SIDE), "grey").save(folder / "images" / "1.png")
    content = {
        "images": [{"id": 1, "file_name": "1.png", **image}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"image_id": 1, "category_id": 1, **annotation}],
    }
    (folder / "instances.json").write_text(json.dumps(content))
    return folder


def edges_of(read: BoxSurvey) -> list[float]:
    ((box,),) = read.boxes
    assert isinstance(box, Box)
    return [round(edge) for edge in box.edges]


def test_names_are_the_text_of_the_file(tmp_path: Path) -> None:
    root = write_yolo(tmp_path, "names: [yes, no, 02, 1e3, null, 2001-01-01]", *(f"{n} .5 .5 .2 .2" for n in range(6)))
    assert set(survey_boxes(root).classes) == {"yes", "no", "02", "1e3", "null", "2001-01-01"}


@pytest.mark.parametrize(
    ("yaml", "row"),
    [
        ("names: [cat]\nkpt_shape: [2, 3]", "0 .5 .5 .2 .4 .1 .1 2 .9 .9 2"),
        ("names: [cat]\nkpt_shape: [3, 2]", "0 .5 .5 .2 .4 .1 .1 .9 .9 .3 .3"),
        ("names: [cat]", "0 .5 .5 .2 .4 .87"),
    ],
    ids=["visible key points", "key points", "confidence"],
)
def test_the_box_is_before_key_points_and_a_confidence(tmp_path: Path, yaml: str, row: str) -> None:
    assert edges_of(survey_boxes(write_yolo(tmp_path, yaml, row))) == [40, 30, 60, 70]


@pytest.mark.parametrize("key", [1.0, "1", "1.0"])
def test_an_identifier_may_be_a_fraction_or_text(tmp_path: Path, key: object) -> None:
    root = write_coco(tmp_path, {"bbox": [10, 20, 30, 40], "image_id": key, "category_id": key})
    assert edges_of(survey_boxes(root)) == [10, 20, 40, 60]


@pytest.mark.parametrize("name", ["images\\1.png", "/home/other/images/1.png"], ids=["Windows", "another machine"])
def test_images_of_coco_are_found_by_their_names(tmp_path: Path, name: str) -> None:
    assert edges_of(survey_boxes(write_coco(tmp_path, {"bbox": [10, 20, 30, 40]}, file_name=name))) == [10, 20, 40, 60]


def test_polygons_without_a_box_give_the_box_around_them(tmp_path: Path) -> None:
    polygons = [[10, 20, 40, 20, 40, 60], [12, 22, 15, 70, 13, 25]]
    assert edges_of(survey_boxes(write_coco(tmp_path, {"segmentation": polygons}))) == [10, 20, 40, 70]


def test_two_corners_are_read_where_more_boxes_fit_into_the_image_that_way(tmp_path: Path) -> None:
    root = write_coco(tmp_path, {"bbox": ["60", "40", 95, 75]}, width=SIDE, height=SIDE)
    assert edges_of(survey_boxes(root)) == [60, 40, 95, 75]


@pytest.mark.parametrize("row", ["0.0 .5 .5 .2 .4", "0, .5, .5, .2, .4"])
def test_numbers_of_rows_are_read_as_other_tools_write_them(tmp_path: Path, row: str) -> None:
    assert edges_of(survey_boxes(write_yolo(tmp_path, "names: [cat]", row))) == [40, 30, 60, 70]


@pytest.mark.parametrize("places", [("images/a", "../images/b"), ("a.txt", "b.txt")], ids=["folders", "lists"])
def test_the_split_of_data_yaml_is_the_users_own(tmp_path: Path, places: tuple[str, str]) -> None:
    root = write_yolo(tmp_path, f"names: [cat]\ntrain: {places[0]}\nval: {places[1]}", "0 .5 .5 .2 .4")
    for name in ("a", "b"):
        (root / "labels" / name).mkdir()
        (root / "images" / name).mkdir()
        Image.new("RGB", (SIDE, SIDE), "red" if name == "a" else "blue").save(root / "images" / name / "2.png")
        (root / "labels" / name / "2.txt").write_text("0 .5 .5 .2 .4")
        (root / f"{name}.txt").write_text(f"./images/{name}/2.png\n")
    parts = {image.path.parent.name: image.part for image in survey_boxes(root).images.dataset.images}
    assert parts == {"a": "train", "b": "validation", "images": ""}


def test_voc_in_an_encoding_of_several_bytes_is_read_in_its_inner_folder(tmp_path: Path) -> None:
    root = tmp_path / "VOCdevkit" / "VOC2012"
    (root / "Annotations").mkdir(parents=True)
    (root / "JPEGImages").mkdir()
    Image.new("RGB", (SIDE, SIDE)).save(root / "JPEGImages" / "1.jpg")
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>"
    text = f'<?xml version="1.0" encoding="GB2312"?><a><object><name>猫</name>{box}</object></a>'
    (root / "Annotations" / "1.xml").write_text(text, encoding="gb2312")
    read = survey_boxes(tmp_path)
    assert read.classes == ("猫",)
    assert edges_of(read) == [1, 2, 30, 40]


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("yolo_names_yes_no_on", ("no", "on", "yes")),
        ("yolo_pose_two_keypoints", ("a", "b", "c")),
        ("coco_float_ids", ("a", "b", "c")),
        ("coco_windows_paths", ("a", "b", "c")),
    ],
)
def test_all_boxes_of_real_sets_are_read(tmp_path: Path, name: str, classes: tuple[str, ...]) -> None:
    read = survey_case(name, tmp_path)
    assert read.classes == classes
    assert read.count == 72
    assert not read.faults
