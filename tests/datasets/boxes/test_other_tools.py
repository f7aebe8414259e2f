"""Boxes as other tools write them: names that YAML takes for other values, key points, identifiers, and paths."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from advisor.datasets.boxes.reading import BoxSurvey, survey_boxes
from advisor.datasets.boxes.values import Box
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


def test_names_may_be_listed_by_their_numbers(tmp_path: Path) -> None:
    root = write_yolo(tmp_path, "names:\n  0: off\n  1: ~x\n", "0 .5 .5 .2 .2", "1 .5 .5 .2 .2")
    assert survey_boxes(root).classes == ("off", "~x")


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


def test_a_path_of_windows_is_one(tmp_path: Path) -> None:
    root = write_coco(tmp_path, {"bbox": [10, 20, 30, 40]}, file_name="images\\1.png")
    assert edges_of(survey_boxes(root)) == [10, 20, 40, 60]


def test_polygons_without_a_box_give_the_box_around_them(tmp_path: Path) -> None:
    polygons = [[10, 20, 40, 20, 40, 60], [12, 22, 15, 70, 13, 25]]
    assert edges_of(survey_boxes(write_coco(tmp_path, {"segmentation": polygons}))) == [10, 20, 40, 70]


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
