"""Rows are found by their names, whichever block has them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from advisor.store.rows import ROWS, add_block, cached_rows, write_block

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class Work:
    """Counts what is computed: row i is (i, i + 0.5)."""

    def __init__(self, names: Sequence[bytes]) -> None:
        self.done: list[int] = []
        self._names = names

    def __call__(self, places: Sequence[int]) -> Floats:
        numbers = [ALL.index(self._names[place]) for place in places]
        self.done += numbers
        return np.array([(number, number + 0.5) for number in numbers], np.float32).reshape(-1, 2)


ALL = [sha256(str(number).encode()).digest() for number in range(40)]


def _get(blocks: Path, numbers: Sequence[int], block: str = "") -> list[int]:
    """Get rows, check them, add them as a block where it has a name; return what was computed."""
    names = [ALL[number] for number in numbers]
    work = Work(names)
    rows = cached_rows(blocks, names, work)
    assert rows[:, 0].tolist() == list(numbers)
    if block:
        folder = blocks.parent / block
        folder.mkdir()
        write_block(folder, names, rows)
        add_block(blocks, folder)
    return work.done


def test_only_what_no_block_has_is_computed(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    assert _get(blocks, range(10), "first") == list(range(10))
    assert _get(blocks, range(5, 15), "second") == list(range(10, 15))
    assert _get(blocks, range(20)) == list(range(15, 20))
    assert _get(blocks, [14, 0, 7]) == []


def test_equal_images_share_a_row(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    _get(blocks, [3, 3, 4], "first")
    assert _get(blocks, [3, 4, 3]) == []


@pytest.mark.parametrize("damage", ["gone", "cut short", "other shape"])
def test_a_damaged_block_is_computed_again(tmp_path: Path, damage: str) -> None:
    blocks = tmp_path / "list.blocks"
    _get(blocks, range(4), "first")
    path = tmp_path / "first" / ROWS
    if damage == "gone":
        path.unlink()
    elif damage == "cut short":
        path.write_bytes(path.read_bytes()[:-5])
    else:
        np.save(path, np.zeros((3, 2), np.float32))
    assert _get(blocks, range(4)) == list(range(4))


def test_a_line_cut_short_by_a_kill_loses_that_block_alone(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    _get(blocks, range(4), "first")
    _get(blocks, range(4, 8), "second")
    blocks.write_bytes(blocks.read_bytes()[:-3])
    assert _get(blocks, range(8), "third") == list(range(4, 8))
    assert _get(blocks, range(8)) == []


def test_a_listed_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    _get(tmp_path / "list.blocks", range(4), "outside")
    blocks = folder / "list.blocks"
    blocks.write_text("../outside\n")
    assert _get(blocks, range(4)) == list(range(4))


def test_no_pickle_is_read(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    _get(blocks, range(4), "first")
    np.save(tmp_path / "first" / ROWS, np.array([{}] * 4, object), allow_pickle=True)
    assert _get(blocks, range(4)) == list(range(4))


def test_blocks_added_at_once_are_all_listed(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    folders = [tmp_path / f"block{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda folder: add_block(blocks, folder), folders * 2))
    assert sorted(blocks.read_text().split()) == sorted(folder.name for folder in folders)
