import csv
import json
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.core import UsageError, install_extra
from advisor.datasets import MaskSurvey, Survey, list_files
from advisor.datasets._boxes import list_boxes
from tests.builders import must_fail
from tests.datasets.folders import fill, make, refusal, tarred
from tests.tables import with_cases
from tests.tasks.segmentation.shapes import folders


def _manifest(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _rows(root: Path, **more: str) -> list[dict[str, str]]:
    files = sorted(root.rglob("*.jpg"))
    return [{"path": f"{file.relative_to(root.parent)}", "label": file.parent.name, **more} for file in files]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "data", cat=12, dog=12)


def test_a_manifest_may_name_images_beside_and_above_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    rows = [{"path": f"../{row['path']}", "label": row["label"]} for row in _rows(root)]
    rows[0]["path"] = str(root / "cat" / "000.jpg")
    dataset = Survey.read(_manifest(tmp_path / "lists" / "set.csv", rows)).dataset
    assert dataset.counts == (12, 12)
    assert dataset.show_path(dataset.images[0].path) == "../data/cat/000.jpg"


def test_a_parquet_manifest_reads_as_the_csv_does(root: Path) -> None:
    import pandas
    from fastparquet import write

    rows = _rows(root, group="")
    for number, row in enumerate(rows):
        row["group"] = f"g{number // 2}"
    write(str(root.parent / "set.parquet"), pandas.DataFrame(rows), row_group_offsets=7)
    dataset = Survey.read(root.parent / "set.parquet").dataset
    assert dataset.images == Survey.read(_manifest(root.parent / "set.csv", rows)).dataset.images
    assert dataset.images[2].group == "g1"


def test_a_parquet_manifest_without_its_package_names_the_extra(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    (root.parent / "set.parquet").write_bytes(b"PAR1")
    raised = must_fail(UsageError, r"set\.parquet' is Parquet", Survey.read, root.parent / "set.parquet")
    assert raised.hint == install_extra("parquet")


def test_numbers_are_labels_too(root: Path) -> None:
    import pandas
    from fastparquet import write

    frame = pandas.DataFrame(_rows(root))
    frame["label"] = [1 if label == "cat" else 20 for label in frame["label"]]
    write(str(root.parent / "set.parquet"), frame)
    assert Survey.read(root.parent / "set.parquet").dataset.classes == ("1", "20")


def test_the_split_and_groups_of_a_manifest_are_read(root: Path) -> None:
    rows = _rows(root, split="train", group="one")
    rows[0]["split"], rows[1]["split"], rows[2]["split"] = "Test", "val", ""
    dataset = Survey.read(_manifest(root.parent / "set.csv", rows)).dataset
    assert [image.part for image in dataset.images[:4]] == ["holdout", "validation", "", "train"]
    assert dataset.own_parts[:3] == ("holdout", "validation", None)
    assert {image.group for image in dataset.images} == {"one"}


def test_missing_files_and_odd_rows_are_named_and_the_rest_is_read(root: Path) -> None:
    rows = _rows(root)
    rows.append({"path": "data/cat/nowhere.jpg", "label": "cat"})
    rows.append({"path": "data/cat/000.jpg", "label": " "})
    rows.append(rows[0])
    dataset = Survey.read(_manifest(root.parent / "set.csv", rows)).dataset
    reasons = [row.reason for row in dataset.rejected]
    assert dataset.counts == (12, 12)
    assert reasons == [
        "no label (row 27 of 'set.csv')",
        "listed twice (row 28 of 'set.csv')",
        "cannot be read: No such file or directory",
    ]


@with_cases
def test_a_wrong_manifest_says_what_is_wrong(root: Path, rows: list[dict[str, str]], words: tuple[str, ...]) -> None:
    message = refusal(list_files, _manifest(root.parent / "set.csv", rows)).message
    assert all(word in message for word in words)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00broken", b"PAR1" + bytes(40) + b"PAR1", os.urandom(300)])
@pytest.mark.parametrize("name", ["set.csv", "set.parquet"])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert name in refusal(list_files, tmp_path / name).message


def test_a_folder_of_loose_images_with_a_manifest_points_at_it(tmp_path: Path) -> None:
    make(tmp_path, data=9)
    _manifest(tmp_path / "data" / "set.csv", [{"picture": "x", "kind": "cat"}])
    assert str(tmp_path / "data" / "set.csv") in refusal(list_files, tmp_path / "data").hint


def _nested(root: Path) -> Path:
    make(root / "Fruit", Apple=5, Lemon=5, Pear=5)
    make(root / "Packages", Juice=5, Milk=5)
    make(root / "Packages" / "Yoghurt", Plain=5)
    return root


def test_folders_in_the_folders_of_a_split_are_refused_too(tmp_path: Path) -> None:
    for part in ("train", "test"):
        _nested(tmp_path / "data" / part)
    must_fail(UsageError, "the 6 deeper folders", list_files, tmp_path / "data")
    parts = Counter(image.part for image in Survey.read(tmp_path / "data" / "**").dataset.images)
    assert parts == {"train": 30, "holdout": 30}


def test_deepest_folders_of_one_name_in_two_places_are_refused(tmp_path: Path) -> None:
    root = _nested(tmp_path / "data")
    make(root / "Fruit", Other=5)
    make(root / "Packages", Other=5)
    must_fail(UsageError, "'Other' would be several folders: 'Fruit/Other', 'Packages/Other'", list_files, root / "**")


def test_linked_folders_are_read_and_a_link_that_turns_back_is_not_followed(root: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    for name in ("cat", "dog"):
        (linked / name).mkdir(parents=True)
        (linked / name / "photos").symlink_to(root / name)
        (linked / name / "again").symlink_to(linked)
    listed = list_files(linked)
    assert len(listed.entries) == 24
    assert {entry.label for entry in listed.entries} == {"cat", "dog"}


WINDOWS = ("cat\\000.jpg", "dog\\100.jpg")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return make(tmp_path, cat=2, dog=2)


def rows(*names: str, delimiter: str = ",") -> str:
    return "\n".join(delimiter.join((name, name.replace("\\", "/").partition("/")[0])) for name in names)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("names", [("cat/000.jpg", "dog/100.jpg"), WINDOWS])
def test_a_mark_a_delimiter_and_the_paths_of_windows_are_read(
    small: Path, encoding: str, delimiter: str, names: tuple[str, str]
) -> None:
    first = "" if delimiter == "," else f"sep={delimiter}\n"
    text = f"{first}path{delimiter}label\n{rows(*names, delimiter=delimiter)}\n"
    (small / "table.csv").write_text(text, encoding=encoding)
    entries = list_files(small / "table.csv").entries
    assert [(entry.label, entry.path.exists()) for entry in entries] == [("cat", True), ("dog", True)]


@pytest.mark.parametrize(("in_table", "on_disk"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_accents_may_be_composed_in_the_table_or_on_the_disk(small: Path, in_table: str, on_disk: str) -> None:
    (small / "cat" / "000.jpg").rename(small / "cat" / unicodedata.normalize(on_disk, "Kätzchen.jpg"))
    table = small / "table.csv"
    name = unicodedata.normalize(in_table, "cat/Kätzchen.jpg")
    table.write_text(f"path,label\n{rows(name, 'dog/100.jpg')}\n", encoding="utf-8")
    assert [entry.path.exists() for entry in list_files(table).entries] == [True, True]


def test_an_image_of_several_classes_is_left_out(small: Path) -> None:
    (small / "table.csv").write_text("path,label\ncat/000.jpg,cat\ncat/001.jpg,dog\ncat/000.jpg,dog\ndog/100.jpg,cat\n")
    listing = list_files(small / "table.csv")
    assert [entry.path.name for entry in listing.entries] == ["001.jpg", "100.jpg"]
    assert [row.reason for row in listing.rejected] == ["of several classes: cat, dog"]


BAD = {"NUL": "gl\0ass", "escape": "gl\x1b[31mass", "line": "gl\nass", "long": "g" * 65_536}


def write_shard(folder: Path, label: str) -> Path:
    """Write a shard of WebDataset with two images, one of a bad label."""
    first, second = fill(folder / "images", 2)
    said = [(f"{number}.json", json.dumps({"label": name}).encode()) for number, name in enumerate((label, "metal"))]
    images = [(f"{number}.jpg", file.read_bytes()) for number, file in enumerate((first, second))]
    return tarred(folder / "shard.tar", [images[0], said[0], images[1], said[1]])


@pytest.mark.parametrize("kind", BAD)
def test_a_label_of_an_archive_is_refused_before_any_work(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError, match="with a control character, bytes that are not UTF-8, or more than 1000"):
        list_files(write_shard(tmp_path, BAD[kind]))


@pytest.mark.parametrize("kind", ["escape", "line"])
def test_a_class_folder_is_refused_in_the_same_way(tmp_path: Path, kind: str) -> None:
    root = make(tmp_path, metal=2, **{BAD[kind]: 2})
    must_fail(UsageError, "with a control character", list_files, root)


def test_an_image_whose_name_is_not_utf8_is_left_out_and_named(tmp_path: Path) -> None:
    root = make(tmp_path, metal=2, glass=2)
    (root / "glass" / "100.jpg").rename(root / "glass" / "\udcff.jpg")
    dataset = Survey.read(list_files(root)).dataset
    ((name, reason),) = [(dataset.show_path(row.path), row.reason) for row in dataset.rejected]
    assert (name, reason) == (r"glass/\udcff.jpg", "its path has a name that is not UTF-8: rename it")


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
    [(numbered, list_files), (boxed, list_boxes), (lambda root: folders(root, names=()), MaskSurvey.read_images)],
)
def test_a_list_of_classes_that_is_a_link_out_of_its_folder_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], read: Callable[[Path], object]
) -> None:
    data = make(tmp_path / "data")
    (tmp_path / "passwd").write_text("root:x:0:0\ndaemon:x:1:1\nbin:x:2:2\n")
    (tmp_path / "data" / "classes.txt").symlink_to("../passwd")
    refused = must_fail(UsageError, "is a link out of its folder", read, data)
    assert refused.hint == "put a copy of the file there"


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
    must_fail(UsageError, "", list_files, tmp_path)


@pytest.mark.parametrize("name", ["a.zip", "metadata.csv", "labels.parquet"])
def test_a_pipe_beside_class_folders_changes_nothing(tmp_path: Path, name: str) -> None:
    root = make(tmp_path, cat=2, dog=2)
    os.mkfifo(root / name)
    assert len(list_files(root).entries) == 4
