from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.errors import UsageError
from advisor.datasets.folder import Dataset, Picture, fingerprint
from advisor.datasets.split import split


def _dataset(rows: list[tuple[int, str]], classes: int) -> Dataset:
    """A dataset from (label, content) rows; equal contents are equal files."""
    root = Path("data")
    names = tuple(f"class {label}" for label in range(classes))
    pictures = tuple(
        Picture(root / names[label] / f"{place}.jpg", label, f"{content}")
        for place, (label, content) in enumerate(rows)
    )
    return Dataset(root, names, pictures, (), fingerprint(names, pictures))


def _plain(counts: list[int]) -> Dataset:
    rows = [(label, f"{label}-{number}") for label, count in enumerate(counts) for number in range(count)]
    return _dataset(rows, len(counts))


counts = st.lists(st.integers(2, 40), min_size=2, max_size=5)
seeds = st.integers(0, 2**32)


@given(counts, seeds)
def test_sides_are_disjoint_and_complete(sizes: list[int], seed: int) -> None:
    dataset = _plain(sizes)
    result = split(dataset, seed)
    assert sorted((*result.train, *result.holdout)) == list(range(len(dataset.pictures)))


@given(counts, seeds, st.floats(0.05, 0.6))
def test_each_class_gives_its_share(sizes: list[int], seed: int, share: float) -> None:
    dataset = _plain(sizes)
    aside = Counter(dataset.pictures[index].label for index in split(dataset, seed, share).holdout)
    for label, size in enumerate(sizes):
        assert aside[label] == min(max(1, round(share * size)), size - 1) or aside[label] == max(1, round(share * size))


@given(counts, seeds, st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(sizes: list[int], seed: int, random: object) -> None:
    dataset = _plain(sizes)
    shuffled = list(dataset.pictures)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = replace(dataset, pictures=tuple(shuffled))
    first = {dataset.pictures[index].sha256 for index in split(dataset, seed).holdout}
    assert first == {other.pictures[index].sha256 for index in split(other, seed).holdout}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12)), min_size=1, max_size=60), seeds)
def test_copies_stay_on_one_side_even_across_classes(rows: list[tuple[int, int]], seed: int) -> None:
    plenty = [(label, f"own {label} {number}") for label in (0, 1) for number in range(20)]
    dataset = _dataset([*plenty, *((label, f"shared {content}") for label, content in rows)], 2)
    result = split(dataset, seed)
    train = {dataset.pictures[index].sha256 for index in result.train}
    assert not train & {dataset.pictures[index].sha256 for index in result.holdout}


@given(st.lists(st.lists(st.integers(0, 59), min_size=2, max_size=4), max_size=12), seeds)
def test_what_belongs_together_stays_on_one_side(together: list[list[int]], seed: int) -> None:
    dataset = _plain([100, 100])
    aside = set(split(dataset, seed, together=together).holdout)
    assert all(len({index in aside for index in group}) == 1 for group in together)


def test_groups_of_one_change_nothing() -> None:
    dataset = _plain([40, 40])
    assert split(dataset, 0, together=[[index] for index in range(80)]) == split(dataset, 0)


def test_seeds_give_different_splits() -> None:
    dataset = _plain([40, 40])
    assert split(dataset, 0).holdout != split(dataset, 1).holdout


def test_a_class_of_copies_is_refused_by_name() -> None:
    dataset = _dataset([(0, f"{number}") for number in range(9)] + [(1, "same")] * 9, 2)
    with pytest.raises(UsageError, match="'class 1'"):
        split(dataset, 0)


def test_a_share_outside_its_range_is_refused() -> None:
    with pytest.raises(UsageError, match=r"1\.0"):
        split(_plain([9, 9]), 0, 1.0)


def test_the_record_names_every_picture_by_hash_class_and_path() -> None:
    dataset = _plain([9, 9])
    result = split(dataset, 3)
    record = result.to_json(dataset)
    assert record["seed"] == 3
    assert record["fingerprint"] == dataset.fingerprint
    assert [row["sha256"] for row in record["holdout"]] == [dataset.pictures[index].sha256 for index in result.holdout]
    assert record["train"][0]["path"] == "class 0/" + dataset.pictures[result.train[0]].path.name
