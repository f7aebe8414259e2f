"""Tables that lie beside images, and classes in the names of images: layouts of well-known sets, rebuilt small."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from advisor.core.errors import UsageError
from advisor.datasets.dataset import Listing
from advisor.datasets.image_names import pattern_of_names
from advisor.datasets.layouts import list_files

CATS_AND_DOGS = [f"train/{name}.{number}.jpg" for name in ("cat", "dog") for number in range(3)]
PETS = [f"images/{name}_{number}.jpg" for name in ("Abyssinian", "american_bulldog") for number in range(1, 4)]


def write(root: Path, images: Sequence[str], tables: dict[str, str]) -> Path:
    """Write small images, and tables by their names."""
    for name in images:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(root / name)
    for name, text in tables.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def labels(listing: Listing) -> dict[str, int]:
    """Return how many images of each class exist."""
    return dict(Counter(entry.label for entry in listing.entries if entry.path.exists()))


PUBLIC = {
    "HAM10000": (
        ["HAM10000_images_part_1/a.jpg", "HAM10000_images_part_2/b.jpg"],
        {"HAM10000_metadata.csv": "lesion_id,image_id,dx,age\n1,a,nv,30\n2,b,mel,40\n"},
        {"nv": 1, "mel": 1},
    ),
    "APTOS": (
        ["train_images/a.png", "train_images/b.png", "test_images/c.png"],
        {"train.csv": "id_code,diagnosis\na,0\nb,2\n", "test.csv": "id_code\nc\n"},
        {"0": 1, "2": 1},
    ),
    "Cassava": (
        ["train_images/1.jpg", "train_images/2.jpg", "test_images/3.jpg"],
        {"train.csv": "image_id,label\n1.jpg,0\n2.jpg,3\n", "sample_submission.csv": "image_id,label\n3.jpg,4\n"},
        {"0": 1, "3": 1},
    ),
    "dog breeds": (
        ["train/a.jpg", "train/b.jpg", "test/c.jpg"],
        {"labels.csv": "id,breed\na,beagle\nb,boxer\n"},
        {"beagle": 1, "boxer": 1},
    ),
    "GTSRB": (
        ["Train/0/a.png", "Train/1/b.png", "Test/c.png", "Meta/0.png", "Meta/1.png"],
        {
            "Train.csv": "Width,ClassId,Path\n30,0,Train/0/a.png\n30,1,Train/1/b.png\n",
            "Test.csv": "Width,ClassId,Path\n30,1,Test/c.png\n30,0,Test/d.png\n",
            "Meta.csv": "Path,ClassId\nMeta/0.png,0\nMeta/1.png,1\n",
        },
        {"0": 1, "1": 2},
    ),
    "metadata.csv of Hugging Face": (
        ["a.jpg", "b.jpg"],
        {"metadata.csv": "file_name,label\na.jpg,glass\nb.jpg,paper\n"},
        {"glass": 1, "paper": 1},
    ),
    "metadata.jsonl of Hugging Face": (
        ["train/a.jpg", "train/b.jpg", "test/c.jpg", "test/d.jpg"],
        {
            f"{part}/metadata.jsonl": "\n".join(
                json.dumps({"file_name": f"{name}.jpg", "label": label}) for name, label in rows
            )
            for part, rows in (("train", [("a", "cat"), ("b", "dog")]), ("test", [("c", "cat"), ("d", "dog")]))
        },
        {"cat": 2, "dog": 2},
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_table_beside_the_images_has_the_classes(tmp_path: Path, name: str) -> None:
    images, tables, expected = PUBLIC[name]
    listing = list_files(write(tmp_path, images, tables))
    assert labels(listing) == expected
    assert any(note.startswith("The classes are those of '") for note in listing.notes)


@pytest.mark.parametrize("name", ["GTSRB", "metadata.jsonl of Hugging Face"])
def test_tables_of_parts_give_the_split(tmp_path: Path, name: str) -> None:
    images, tables, _ = PUBLIC[name]
    listing = list_files(write(tmp_path, images, tables))
    assert {entry.part for entry in listing.entries} == {"train", "holdout"}


def test_class_folders_count_where_a_table_beside_them_says_the_same(tmp_path: Path) -> None:
    images = ["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]
    listing = list_files(write(tmp_path, images, {"list.csv": "path,label\ncat/a.jpg,cat\ndog/c.jpg,dog\n"}))
    assert labels(listing) == {"cat": 2, "dog": 1}


def test_two_tables_without_parts_are_a_question(tmp_path: Path) -> None:
    tables = dict.fromkeys(("old.csv", "new.csv"), "path,label\na.jpg,cat\nb.jpg,dog\n")
    with pytest.raises(UsageError, match=r"which table has the classes of .*'new.csv', 'old.csv'"):
        list_files(write(tmp_path, ["a.jpg", "b.jpg"], tables))


@pytest.mark.parametrize(
    ("images", "pattern", "classes"),
    [
        (CATS_AND_DOGS, "train/{class}.#.jpg", {"cat": 3, "dog": 3}),
        (PETS, "images/{class}_#.jpg", {"Abyssinian": 3, "american_bulldog": 3}),
    ],
    ids=["cats and dogs", "Oxford pets"],
)
def test_names_that_have_the_class_are_a_question_whose_answer_is_a_pattern(
    tmp_path: Path, images: list[str], pattern: str, classes: dict[str, int]
) -> None:
    write(tmp_path, images, {})
    with pytest.raises(UsageError) as refused:
        list_files(tmp_path)
    assert f"--data '{tmp_path / pattern}'" in refused.value.hint
    assert labels(list_files(tmp_path / pattern)) == classes


def test_images_that_do_not_fit_the_pattern_are_left_out_with_a_line(tmp_path: Path) -> None:
    write(tmp_path, [*CATS_AND_DOGS, "train/cover.jpg"], {})
    listing = list_files(tmp_path / "train" / "{class}.#.jpg")
    assert listing.notes == ("1 image does not fit '{class}.#.jpg', and is not used.",)


def test_names_of_cameras_have_no_class() -> None:
    names = [(f"IMG_{number}.jpg",) for number in range(9)]
    assert pattern_of_names(names) == ((), "", [])
