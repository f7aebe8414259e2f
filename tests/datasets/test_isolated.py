"""Files that native code reads are opened in a child process, so that no damaged one ends this process."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

from advisor.core import UsageError, show_bytes
from advisor.datasets import Survey, list_files
from advisor.datasets._column_search import LABELLED
from advisor.datasets._manifests import read_rows
from advisor.datasets._sources import tables
from advisor.isolation import IN_CHILD
from tests.builders import must_fail, write_file
from tests.datasets.test_sources import PICTURES, arrow_stream, jpeg, parquet

pa = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("reads_in_children")]


def write_table(path: Path) -> Path:
    """Write 24 rows."""
    return (parquet if path.suffix == ".parquet" else arrow_stream)(path, [*PICTURES] * 4)


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
def test_no_damaged_table_ends_this_process_and_each_is_read_or_refused(tmp_path: Path, suffix: str) -> None:
    whole = write_table(tmp_path / f"whole{suffix}").read_bytes()
    random = np.random.default_rng(7)
    ends = []
    for number in range(20):
        data = bytearray(whole[: len(whole) - (100 * number if number % 5 == 0 else 0)])
        where = len(data) if number % 2 else 2000  # in the header or footer, or anywhere
        for place in random.integers(0, where, 12):
            data[int(place)] = int(random.integers(0, 256))
        for place in random.integers(len(data) - 900, len(data), 3 * (number % 3)):
            data[int(place)] = int(random.integers(0, 256))
        file = write_file(tmp_path / f"damaged{number}{suffix}", data)
        try:
            read = Survey.read(list_files(file))
        except UsageError as error:
            ends.append(bool(error.message and error.hint))
        else:
            ends.append(len(read.dataset.images) + len(read.dataset.rejected) > 0)
    assert ends == [True] * 20


def images_of(values: Sequence[bytes], rows: Sequence[int], struct: bool) -> pa.Array:
    """Return a column of images that a writer of Parquet keeps as a list of values and numbers."""
    images = pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), pa.array(values))
    paths = pa.array(["a.png"] * len(rows))
    return pa.StructArray.from_arrays([images, paths], ["bytes", "path"]) if struct else images


@pytest.mark.parametrize("struct", [True, False])
def test_values_that_count_often_take_no_memory_here_and_cost_one_attempt(tmp_path: Path, struct: bool) -> None:
    noise = np.random.default_rng(0).bytes(tables.MOST_GROUP_BYTES // 50)
    table = pa.table({"image": images_of([noise], [0] * 60, struct), "label": ["cat", "dog"] * 30})
    pq.write_table(table, tmp_path / "many.parquet", store_schema=False)
    before = psutil.Process().memory_info().rss
    read = Survey.read(list_files(tmp_path / "many.parquet"))
    assert {row.reason for row in read.dataset.rejected} == {
        f"damaged: a row group has more than {show_bytes(tables.MOST_GROUP_BYTES)} of images"
    }
    assert psutil.Process().memory_info().rss - before < 300_000_000


@pytest.mark.parametrize("struct", [True, False])
@pytest.mark.parametrize("listed_bytes", [1_000_000, 2_000], ids=["all listed", "some listed"])
def test_images_that_stand_in_several_rows_are_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, struct: bool, listed_bytes: int
) -> None:
    monkeypatch.setenv(IN_CHILD, "1")  # a child would not count here
    values = [np.random.default_rng(number).bytes(1_000) for number in range(50)]
    rows = [row % len(values) for row in range(400)]
    table = pa.table({"image": images_of(values, rows, struct), "label": ["cat", "dog"] * 200})
    pq.write_table(
        table, tmp_path / "a.parquet", store_schema=False, dictionary_pagesize_limit=listed_bytes, write_batch_size=10
    )
    before = pa.total_allocated_bytes()
    archive = tables.ParquetTable(tmp_path / "a.parquet")
    assert [archive.read_member(f"{row:07d}") for row in range(400)] == [values[row] for row in rows]
    if listed_bytes > 50_000:
        assert pa.total_allocated_bytes() - before < 200_000  # all rows decoded have 400,000


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_table_that_states_too_many_rows_is_refused_before_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv(IN_CHILD, "1")  # a child would not know another limit
    monkeypatch.setattr(tables, "MOST_ROWS", 23)
    with pytest.raises(UsageError, match="has 24 rows, above the limit of 23") as refused:
        list_files(write_table(tmp_path / f"long{suffix}"))
    assert "several files" in refused.value.hint


@pytest.mark.parametrize("images", [True, False])
def test_two_columns_of_one_name_are_refused_by_their_name(tmp_path: Path, images: bool) -> None:
    column = pa.array([jpeg(seed) for seed in range(4)] if images else ["a.jpg", "b.jpg", "c.jpg", "d.jpg"])
    labels = pa.array(["cat", "dog"] * 2)
    names = ["image" if images else "path", "label", "label"]
    pq.write_table(pa.Table.from_arrays([column, labels, labels], names), tmp_path / "twice.parquet")
    must_fail(UsageError, "several columns named 'label'", list_files, tmp_path / "twice.parquet")


def test_lists_are_no_paths(tmp_path: Path) -> None:
    table = pa.table({"path": [[b"\xff\xd8"], [b"\xff\xd8"]], "label": ["cat", "dog"]})
    pq.write_table(table, tmp_path / "lists.parquet")
    with pytest.raises(UsageError, match="the cells of its column 'path' are lists, and not text"):
        list(read_rows(tmp_path / "lists.parquet", LABELLED))
