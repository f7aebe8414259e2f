"""Tables that lie beside images, and classes in the names of images: not those of public sets."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from advisor.core import UsageError
from advisor.datasets import Listing, list_files
from advisor.datasets._image_names import pattern_of_names

CATS_AND_DOGS = [f"train/{name}.{number}.jpg" for name in ("cat", "dog") for number in range(3)]


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


def test_class_folders_count_where_a_table_beside_them_says_the_same(tmp_path: Path) -> None:
    images = ["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]
    listing = list_files(write(tmp_path, images, {"list.csv": "path,label\ncat/a.jpg,cat\ndog/c.jpg,dog\n"}))
    assert labels(listing) == {"cat": 2, "dog": 1}


def test_two_tables_without_parts_are_a_question(tmp_path: Path) -> None:
    tables = dict.fromkeys(("old.csv", "new.csv"), "path,label\na.jpg,cat\nb.jpg,dog\n")
    with pytest.raises(UsageError, match=r"which table has the classes of .*'new.csv', 'old.csv'"):
        list_files(write(tmp_path, ["a.jpg", "b.jpg"], tables))


def test_images_that_do_not_fit_the_pattern_are_left_out_with_a_line(tmp_path: Path) -> None:
    write(tmp_path, [*CATS_AND_DOGS, "train/cover.jpg"], {})
    listing = list_files(tmp_path / "train" / "{class}.#.jpg")
    assert listing.notes == ("1 image does not fit '{class}.#.jpg', and is not used.",)


def test_names_of_cameras_have_no_class() -> None:
    names = [(f"IMG_{number}.jpg",) for number in range(9)]
    assert pattern_of_names(names) == ((), "", [])
