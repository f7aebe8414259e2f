"""Manifests as spreadsheets and other systems write them."""

import unicodedata
from pathlib import Path

import pytest

from advisor.datasets import list_files
from tests.datasets.folders import make

WINDOWS = ("cat\\000.jpg", "dog\\100.jpg")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path, cat=2, dog=2)


def rows(*names: str, delimiter: str = ",") -> str:
    return "\n".join(delimiter.join((name, name.replace("\\", "/").partition("/")[0])) for name in names)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("names", [("cat/000.jpg", "dog/100.jpg"), WINDOWS])
def test_a_mark_a_delimiter_and_the_paths_of_windows_are_read(
    root: Path, encoding: str, delimiter: str, names: tuple[str, str]
) -> None:
    first = "" if delimiter == "," else f"sep={delimiter}\n"
    text = f"{first}path{delimiter}label\n{rows(*names, delimiter=delimiter)}\n"
    (root / "table.csv").write_text(text, encoding=encoding)
    entries = list_files(root / "table.csv").entries
    assert [(entry.label, entry.path.exists()) for entry in entries] == [("cat", True), ("dog", True)]


@pytest.mark.parametrize(("in_table", "on_disk"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_accents_may_be_composed_in_the_table_or_on_the_disk(root: Path, in_table: str, on_disk: str) -> None:
    (root / "cat" / "000.jpg").rename(root / "cat" / unicodedata.normalize(on_disk, "Kätzchen.jpg"))
    table = root / "table.csv"
    name = unicodedata.normalize(in_table, "cat/Kätzchen.jpg")
    table.write_text(f"path,label\n{rows(name, 'dog/100.jpg')}\n", encoding="utf-8")
    assert [entry.path.exists() for entry in list_files(table).entries] == [True, True]


@pytest.mark.parametrize(
    ("column", "holdout", "train"),
    [
        *(("split", written, "train") for written in ("test_set", "TEST", "test2017")),
        *(("is_train", "0", "1"), ("is_test", "True", "False"), ("Usage", "PublicTest", "Training")),
    ],
)
def test_a_column_says_the_part_in_the_words_of_folders(root: Path, column: str, holdout: str, train: str) -> None:
    (root / "table.csv").write_text(f"path,label,{column}\ncat/000.jpg,cat,{holdout}\ndog/100.jpg,dog,{train}\n")
    assert [entry.part for entry in list_files(root / "table.csv").entries] == ["holdout", "train"]


def test_an_image_of_several_classes_is_left_out(root: Path) -> None:
    (root / "table.csv").write_text("path,label\ncat/000.jpg,cat\ncat/001.jpg,dog\ncat/000.jpg,dog\ndog/100.jpg,cat\n")
    listing = list_files(root / "table.csv")
    assert [entry.path.name for entry in listing.entries] == ["001.jpg", "100.jpg"]
    assert [row.reason for row in listing.rejected] == ["of several classes: cat, dog"]
