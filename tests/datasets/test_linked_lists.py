"""Lists of classes that are links out of their folder are not read, and pipes are not waited for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.datasets import list_files
from advisor.datasets._boxes import list_boxes
from advisor.tasks.segmentation._masks import survey_masks
from tests.datasets.folders import fill, make
from tests.tables import with_cases
from tests.tasks.segmentation.shapes import folders


def numbered(root: Path) -> Path:
    """Write a table whose classes are numbers, which a list beside it names."""
    files = fill(root, 4)
    rows = [f"{file.name},{place % 2}" for place, file in enumerate(files)]
    (root / "table.csv").write_text("\n".join(["path,label", *rows]))
    return root / "table.csv"


def boxed(root: Path) -> Path:
    for file in fill(root, 2):
        file.with_suffix(".txt").write_text("0 0.5 0.5 0.2 0.2")
    return root


@pytest.mark.parametrize(
    ("make", "read"),
    [(numbered, list_files), (boxed, list_boxes), (lambda root: folders(root, names=()), survey_masks)],
)
def test_a_list_of_classes_that_is_a_link_out_of_its_folder_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], read: Callable[[Path], object]
) -> None:
    data = make(tmp_path / "data")
    (tmp_path / "passwd").write_text("root:x:0:0\ndaemon:x:1:1\nbin:x:2:2\n")
    (tmp_path / "data" / "classes.txt").symlink_to("../passwd")
    with pytest.raises(UsageError, match="is a link out of its folder") as refused:
        read(data)
    assert refused.value.hint == "put a copy of the file there"


def test_a_list_may_be_where_the_table_beside_it_is(tmp_path: Path) -> None:
    table = numbered(tmp_path / "data")
    (tmp_path / "blobs").mkdir()
    for name, text in (("table.csv", table.read_text()), ("classes.txt", "cat\ndog\n")):
        (tmp_path / "blobs" / name).write_text(text)
        (table.parent / name).unlink(missing_ok=True)
        (table.parent / name).symlink_to(f"../blobs/{name}")
    assert {entry.label for entry in list_files(table).entries} == {"cat", "dog"}


@with_cases
def test_a_pipe_beside_nothing_is_no_data_set(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError):
        list_files(tmp_path)


@pytest.mark.parametrize("name", ["a.zip", "metadata.csv", "labels.parquet"])
def test_a_pipe_beside_class_folders_changes_nothing(tmp_path: Path, name: str) -> None:
    root = make(tmp_path, cat=2, dog=2)
    os.mkfifo(root / name)
    assert len(list_files(root).entries) == 4
