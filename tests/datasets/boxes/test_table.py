from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes import list_boxes
from advisor.datasets.boxes.reading import survey_boxes
from tests.datasets.boxes.writers import photos, save, write, write_table

HEADER = "path,label,xmin,ymin,xmax,ymax"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path, photos(4, "cat", "dog"))


def _with(table: Path, *rows: str) -> Path:
    return write(table, table.read_text() + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("000.jpg,cat,30,5,10,20", "the right edge is left of the left one, or the bottom above the top"),
        ("000.jpg,cat,5,20,10,10", "the right edge is left of the left one, or the bottom above the top"),
        ("000.jpg,cat,5,5,5,20", "no width or no height"),
        ("000.jpg,cat,0.1,0.1,0.5,0.5", "coordinates from 0 to 1, where pixels are expected"),
        ("000.jpg,cat,1,2,x,4", "an edge is missing or not a number"),
        ("000.jpg,cat,1,2,3,1e400", "an edge is missing or not a number"),
        ("000.jpg,cat,,,,", "an edge is missing or not a number"),
        ("000.jpg,,1,2,13,14", "no label"),
    ],
)
def test_a_wrong_row_is_counted_with_its_number(table: Path, row: str, reason: str) -> None:
    listing = list_boxes(_with(table, row))
    assert [(fault.place, fault.reason) for fault in listing.faults] == [("row 10 of 'set.csv'", reason)]
    assert sum(len(entry.boxes) for entry in listing.entries) == 8


def test_shares_are_known_by_their_majority_and_pixels_among_them_are_counted(tmp_path: Path) -> None:
    rows = [f"{n}.jpg,cat,0.25,0.25,0.75,0.5" for n in range(4)]
    for n in range(4):
        save(tmp_path / f"{n}.jpg", n)
    read = survey_boxes(write(tmp_path / "a.csv", "\n".join([HEADER, *rows, "0.jpg,cat,10,10,30,30"])))
    assert read.boxes[0][0].edges == (16.0, 12.0, 48.0, 24.0)
    assert [fault.reason for fault in read.faults] == ["pixels, where coordinates from 0 to 1 are expected"]


def test_a_row_without_label_and_edges_is_an_image_without_boxes(table: Path) -> None:
    save(table.parent / "empty.jpg")
    assert len(list_boxes(_with(table, "empty.jpg,,,,,")).entries[-1].boxes) == 0


def test_other_names_of_columns_and_the_stated_size_are_read(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg")
    text = "filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,64,48,cat,1,2,30,40\n"
    (entry,) = list_boxes(write(tmp_path / "a.csv", text)).entries
    assert entry.size == (64, 48)
    assert entry.boxes[0].label == "cat"


def test_groups_are_read(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg")
    (entry,) = list_boxes(write(tmp_path / "a.csv", f"{HEADER},group\na.jpg,cat,1,2,30,40,visit 3\n")).entries
    assert entry.group == "visit 3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\na.jpg,cat\n", "has no column 'xmin'"),
        (f"{HEADER},split\na.jpg,cat,1,2,3,4,train\na.jpg,cat,5,6,7,8,test\n", "row 3 .* has another split"),
        (f"{HEADER}\n,cat,1,2,3,4\n", "row 2 .* names no image"),
        (f"{HEADER},split\na.jpg,cat,1,2,3,4,trian\n", "did you mean 'train'"),
        ("", "has no column 'path'"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused_with_the_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        list_boxes(write(tmp_path / "a.csv", text))
    assert caught.value.hint


def test_a_parquet_table_reads_as_the_csv_does(table: Path) -> None:
    import pandas
    from fastparquet import write as write_parquet

    write_parquet(str(table.with_suffix(".parquet")), pandas.read_csv(table, dtype={"split": str}).fillna(""))
    of_csv, of_parquet = (survey_boxes(table.with_suffix(suffix)) for suffix in (".csv", ".parquet"))
    assert [[box.edges for box in boxes] for boxes in of_csv.boxes] == [
        [box.edges for box in boxes] for boxes in of_parquet.boxes
    ]


def test_five_thousand_boxes_in_one_image_are_read_and_more_than_ten_thousand_are_named(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg")
    save(tmp_path / "b.jpg", 1)
    rows = [f"a.jpg,cat,{n % 50},{n // 200},{n % 50 + 9.5},{n // 200 + 9}" for n in range(5000)]
    more = ["b.jpg,cat,1,2,30,40"] * 10_001
    listing = list_boxes(write(tmp_path / "a.csv", "\n".join([HEADER, *rows, *more])))
    assert [len(entry.boxes) for entry in listing.entries] == [5000]
    assert [row.reason for row in listing.rejected] == ["10,001 boxes of 'b.jpg', above the limit of 10,000"]
