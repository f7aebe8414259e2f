"""Boxes as other tools write them: names that YAML takes for other values, key points, identifiers, and paths."""

from pathlib import Path

import pytest
from PIL import Image

from advisor.datasets import BoxSurvey

SIDE = 100


def write_yolo(folder: Path, yaml: str, *rows: str) -> Path:
    """Write one image, its label file and ``data.yaml``."""
    for name in ("images", "labels"):
        (folder / name).mkdir(parents=True)
    Image.new("RGB", (SIDE, SIDE), "grey").save(folder / "images" / "1.png")
    (folder / "labels" / "1.txt").write_text("\n".join(rows))
    (folder / "data.yaml").write_text(yaml)
    return folder


def test_names_are_the_text_of_the_file(tmp_path: Path) -> None:
    root = write_yolo(tmp_path, "names: [yes, no, 02, 1e3, null, 2001-01-01]", *(f"{n} .5 .5 .2 .2" for n in range(6)))
    assert set(BoxSurvey.read_images(root).classes) == {"yes", "no", "02", "1e3", "null", "2001-01-01"}


@pytest.mark.parametrize("places", [("images/a", "../images/b"), ("a.txt", "b.txt")], ids=["folders", "lists"])
def test_the_split_of_data_yaml_is_the_users_own(tmp_path: Path, places: tuple[str, str]) -> None:
    root = write_yolo(tmp_path, f"names: [cat]\ntrain: {places[0]}\nval: {places[1]}", "0 .5 .5 .2 .4")
    for name in ("a", "b"):
        (root / "labels" / name).mkdir()
        (root / "images" / name).mkdir()
        Image.new("RGB", (SIDE, SIDE), "red" if name == "a" else "blue").save(root / "images" / name / "2.png")
        (root / "labels" / name / "2.txt").write_text("0 .5 .5 .2 .4")
        (root / f"{name}.txt").write_text(f"./images/{name}/2.png\n")
    parts = {image.path.parent.name: image.part for image in BoxSurvey.read_images(root).images.dataset.images}
    assert parts == {"a": "train", "b": "validation", "images": ""}


def test_voc_in_an_encoding_of_several_bytes_is_read_in_its_inner_folder(tmp_path: Path) -> None:
    root = tmp_path / "VOCdevkit" / "VOC2012"
    (root / "Annotations").mkdir(parents=True)
    (root / "JPEGImages").mkdir()
    Image.new("RGB", (SIDE, SIDE)).save(root / "JPEGImages" / "1.jpg")
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>"
    text = f'<?xml version="1.0" encoding="GB2312"?><a><object><name>猫</name>{box}</object></a>'
    (root / "Annotations" / "1.xml").write_text(text, encoding="gb2312")
    read = BoxSurvey.read_images(tmp_path)
    assert read.classes == ("猫",)
    assert [[box.edges for box in boxes] for boxes in read.boxes] == [[(1, 2, 30, 40)]]
