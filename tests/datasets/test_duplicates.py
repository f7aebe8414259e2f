"""Find near duplicates by their hashes."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from advisor.datasets import duplicates
from advisor.datasets.duplicates import all_close, close_pairs, near_duplicates

hashes = st.integers(0, 2**64 - 1)
changes = st.lists(st.integers(0, 63), max_size=12)


@given(st.lists(st.tuples(hashes, st.lists(changes, max_size=3)), min_size=1, max_size=12))
def test_looking_hashes_up_by_pieces_finds_the_pairs_that_comparing_all_finds(
    rows: list[tuple[int, list[list[int]]]],
) -> None:
    values = [value ^ sum(1 << bit for bit in set(bits)) for value, copies in rows for bits in ([], *copies)]
    whole = np.array(values, np.uint64)
    assert close_pairs(whole) == set(all_close(whole))


def test_a_large_set_has_the_same_near_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    thumbnails = random.integers(0, 256, (60, 32, 32)).astype(np.uint8)
    thumbnails[30:] = np.clip(thumbnails[:30] + random.integers(-9, 10, (30, 32, 32)), 0, 255)
    before = near_duplicates(thumbnails)
    assert len(before) >= 25
    monkeypatch.setattr(duplicates, "MANY", 10)
    assert near_duplicates(thumbnails) == before
