"""Manifests as spreadsheets and other systems write them."""

import unicodedata
from pathlib import Path

import pytest

from advisor.datasets.layouts import list_files
from tests.datasets.folders import make

WINDOWS = ("cat\\000.jpg", "dog\\100.jpg")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path, cat=2, dog=2)


def rows(*names: str, delimiter: str = ",") -> str:
    return "\n".join(delimiter.join((name, name.replace("\\", "/").partition("/")[0])) for name in names)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encoding_of_a_table_is_known_by_its_mark(root: Path, encoding: str) -> None:
    table = root / "table.csv"
    table.write_text(f"path,label\n{rows('cat/000.jpg', 'dog/100.jpg')}\n", encoding=encoding)
    assert {entry.label for entry in list_files(table).entries} == {"cat", "dog"}


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_first_line_may_name_the_delimiter(root: Path, delimiter: str) -> None:
    table = root / "table.csv"
    text = rows("cat/000.jpg", "dog/100.jpg", delimiter=delimiter)
    table.write_text(f"sep={delimiter}\npath{delimiter}label\n{text}\n")
    assert [entry.path.exists() for entry in list_files(table).entries] == [True, True]


def test_paths_of_windows_are_read(root: Path) -> None:
    table = root / "table.csv"
    table.write_text(f"path,label\n{rows(*WINDOWS)}\n")
    assert [entry.path.exists() for entry in list_files(table).entries] == [True, True]


@pytest.mark.parametrize(("in_table", "on_disk"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_accents_may_be_composed_in_the_table_or_on_the_disk(root: Path, in_table: str, on_disk: str) -> None:
    (root / "cat" / "000.jpg").rename(root / "cat" / unicodedata.normalize(on_disk, "Kätzchen.jpg"))
    table = root / "table.csv"
    name = unicodedata.normalize(in_table, "cat/Kätzchen.jpg")
    table.write_text(f"path,label\n{rows(name, 'dog/100.jpg')}\n", encoding="utf-8")
    assert [entry.path.exists() for entry in list_files(table).entries] == [True, True]


@pytest.mark.parametrize("written", ["test_set", "TEST", "test2017"])
def test_the_column_of_the_split_has_the_words_of_folders(root: Path, written: str) -> None:
    table = root / "table.csv"
    table.write_text(f"path,label,split\ncat/000.jpg,cat,{written}\ndog/100.jpg,dog,train\n")
    assert [entry.part for entry in list_files(table).entries] == ["holdout", "train"]
