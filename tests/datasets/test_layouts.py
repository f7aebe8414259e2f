import csv
import os
import sys
from pathlib import Path

import pytest

from advisor.core import UsageError, install_extra
from advisor.datasets import Dataset, list_files, survey
from tests.datasets.folders import make, refusal
from tests.tables import with_cases


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


def _parts(dataset: Dataset) -> dict[str, int]:
    return {part: sum(image.part == part for image in dataset.images) for part in ("train", "validation", "holdout")}


def test_a_manifest_may_name_images_beside_and_above_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    rows = [{"path": f"../{row['path']}", "label": row["label"]} for row in _rows(root)]
    rows[0]["path"] = str(root / "cat" / "000.jpg")
    dataset = survey(_manifest(tmp_path / "lists" / "set.csv", rows)).dataset
    assert dataset.counts == (12, 12)
    assert dataset.show_path(dataset.images[0].path) == "../data/cat/000.jpg"


def test_a_parquet_manifest_reads_as_the_csv_does(root: Path) -> None:
    import pandas
    from fastparquet import write

    rows = _rows(root, group="")
    for number, row in enumerate(rows):
        row["group"] = f"g{number // 2}"
    write(str(root.parent / "set.parquet"), pandas.DataFrame(rows), row_group_offsets=7)
    dataset = survey(root.parent / "set.parquet").dataset
    assert dataset.images == survey(_manifest(root.parent / "set.csv", rows)).dataset.images
    assert dataset.images[2].group == "g1"


def test_a_parquet_manifest_without_its_package_names_the_extra(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    (root.parent / "set.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"set\.parquet' is Parquet") as raised:
        survey(root.parent / "set.parquet")
    assert raised.value.hint == install_extra("parquet")


def test_numbers_are_labels_too(root: Path) -> None:
    import pandas
    from fastparquet import write

    frame = pandas.DataFrame(_rows(root))
    frame["label"] = [1 if label == "cat" else 20 for label in frame["label"]]
    write(str(root.parent / "set.parquet"), frame)
    assert survey(root.parent / "set.parquet").dataset.classes == ("1", "20")


def test_the_split_and_groups_of_a_manifest_are_read(root: Path) -> None:
    rows = _rows(root, split="train", group="one")
    rows[0]["split"], rows[1]["split"], rows[2]["split"] = "Test", "val", ""
    dataset = survey(_manifest(root.parent / "set.csv", rows)).dataset
    assert [image.part for image in dataset.images[:4]] == ["holdout", "validation", "", "train"]
    assert dataset.own_parts[:3] == ("holdout", "validation", None)
    assert {image.group for image in dataset.images} == {"one"}


def test_missing_files_and_odd_rows_are_named_and_the_rest_is_read(root: Path) -> None:
    rows = _rows(root)
    rows.append({"path": "data/cat/nowhere.jpg", "label": "cat"})
    rows.append({"path": "data/cat/000.jpg", "label": " "})
    rows.append(rows[0])
    dataset = survey(_manifest(root.parent / "set.csv", rows)).dataset
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
    with pytest.raises(UsageError, match="the 6 deeper folders"):
        list_files(tmp_path / "data")
    assert _parts(survey(tmp_path / "data" / "**").dataset) == {"train": 30, "validation": 0, "holdout": 30}


def test_deepest_folders_of_one_name_in_two_places_are_refused(tmp_path: Path) -> None:
    root = _nested(tmp_path / "data")
    make(root / "Fruit", Other=5)
    make(root / "Packages", Other=5)
    with pytest.raises(UsageError, match="'Other' would be several folders: 'Fruit/Other', 'Packages/Other'"):
        list_files(root / "**")


def test_linked_folders_are_read_and_a_link_that_turns_back_is_not_followed(root: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    for name in ("cat", "dog"):
        (linked / name).mkdir(parents=True)
        (linked / name / "photos").symlink_to(root / name)
        (linked / name / "again").symlink_to(linked)
    listed = list_files(linked)
    assert len(listed.entries) == 24
    assert {entry.label for entry in listed.entries} == {"cat", "dog"}
