from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from advisor.core.errors import UsageError
from advisor.datasets.dataset import Dataset, LabelledImage, fingerprint
from advisor.datasets.split import Split, split
from advisor.datasets.whole_groups import Grouping, Source

NAMES = ("a", "b", "c")
seeds = st.integers(0, 2**32)
sizes = st.lists(st.integers(1, 8), min_size=3, max_size=10)


def _dataset(groups: list[tuple[int, int]]) -> tuple[Dataset, tuple[int, ...]]:
    """A dataset of (class, images) groups, and the group of each image."""
    rows = [(label, number) for number, (label, count) in enumerate(groups) for _ in range(count)]
    images = tuple(
        LabelledImage(Path(f"{NAMES[label]}/{place}.jpg"), label, f"{place}") for place, (label, _) in enumerate(rows)
    )
    names = NAMES[: max(label for label, _ in rows) + 1]
    return Dataset(Path(), names, images, (), fingerprint(names, images)), tuple(number for _, number in rows)


def _parts(result: Split) -> tuple[set[int], ...]:
    return set(result.train), set(result.validation), set(result.holdout)


@given(sizes, sizes, seeds, st.sampled_from([Source.MANIFEST, Source.APPEARANCE]))
def test_a_group_is_in_one_part(one: list[int], other: list[int], seed: int, source: Source) -> None:
    dataset, of = _dataset([*((0, count) for count in one), *((1, count) for count in other)])
    result = split(dataset, seed, grouping=Grouping(of, source))
    for number in set(of):
        members = {index for index, group in enumerate(of) if group == number}
        assert sum(bool(members & part) for part in _parts(result)) == 1


@given(sizes, sizes, seeds)
def test_every_class_is_in_every_part_if_it_has_three_groups(one: list[int], other: list[int], seed: int) -> None:
    dataset, of = _dataset([*((0, count) for count in one), *((1, count) for count in other)])
    for part in _parts(split(dataset, seed, grouping=Grouping(of, Source.APPEARANCE))):
        assert {dataset.images[index].label for index in part} == {0, 1}


@given(st.lists(st.integers(1, 4), min_size=10, max_size=20), seeds)
def test_the_shares_are_close_to_those_of_single_images(counts: list[int], seed: int) -> None:
    dataset, of = _dataset([(label, count) for label in (0, 1) for count in counts])
    result = split(dataset, seed, grouping=Grouping(of, Source.CAMERA))
    total = Counter(dataset.labels)
    aside = Counter(dataset.images[index].label for index in result.holdout)
    for label, count in total.items():
        assert abs(aside[label] - 0.2 * count) <= 2


def test_a_class_with_one_inferred_group_gives_its_last_images_in_the_order_of_numbers() -> None:
    dataset, of = _dataset([(0, 12), (1, 4), (1, 4), (1, 4)])
    result = split(dataset, 0, grouping=Grouping(of, Source.SEQUENCE))
    assert {index for index in result.holdout if index < 12} == {10, 11}
    assert {index for index in result.validation if index < 12} == {8, 9}


def test_a_class_with_one_group_of_the_user_is_refused_by_name() -> None:
    dataset, of = _dataset([(0, 12), (1, 4), (1, 4), (1, 4)])
    with pytest.raises(UsageError, match="'a' is left for the hold-out: all of the class are in one group"):
        split(dataset, 0, grouping=Grouping(of, Source.MANIFEST))


def test_a_class_with_two_groups_of_the_user_has_no_validation() -> None:
    dataset, of = _dataset([(0, 6), (0, 6), (1, 4), (1, 4), (1, 4)])
    result = split(dataset, 0, grouping=Grouping(of, Source.MANIFEST))
    assert {dataset.images[index].label for index in result.validation} == {1}


@given(seeds)
def test_a_group_of_several_classes_stays_whole(seed: int) -> None:
    dataset, _ = _dataset([(label, 12) for label in (0, 1, 2)])
    of = tuple(index % 6 for index in range(36))
    result = split(dataset, seed, grouping=Grouping(of, Source.CAMERA))
    assert [len(part) for part in _parts(result)] == [24, 6, 6]
    for part in _parts(result):
        assert all({j for j in range(36) if of[j] == of[index]} <= part for index in part)


@given(sizes, seeds, st.lists(st.integers(0, 30), min_size=2, max_size=3, unique=True))
def test_near_duplicates_join_the_groups_they_connect(counts: list[int], seed: int, pair: list[int]) -> None:
    dataset, of = _dataset([(label, count) for label in (0, 1) for count in (*counts, 1, 1, 1)])
    assume(max(pair) < len(of))
    result = split(dataset, seed, together=[pair], grouping=Grouping(of, Source.APPEARANCE))
    assert sum(bool(set(pair) & part) for part in _parts(result)) == 1


def test_seeds_draw_different_groups() -> None:
    dataset, of = _dataset([(label, 4) for label in (0, 1) for _ in range(10)])
    drawn = {split(dataset, seed, grouping=Grouping(of, Source.CAMERA)).holdout for seed in range(5)}
    assert len(drawn) > 1


def test_the_record_has_the_source_and_the_group_of_each_image() -> None:
    dataset, of = _dataset([(label, 4) for label in (0, 1) for _ in range(4)])
    grouping = Grouping(of, Source.CAMERA)
    result = split(dataset, 0, grouping=grouping)
    record = result.to_json(dataset, grouping)
    assert record["grouping"] == {"source": Source.CAMERA.value, "groups": 8, "largest": 4}
    assert [row["group"] for row in record["holdout"]] == [of[index] for index in result.holdout]  # type: ignore[attr-defined]
