from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.core import UsageError
from advisor.datasets import Dataset, LabelledImage, Split, SplitPart, _units, split_halves
from advisor.datasets._dataset import compute_fingerprint
from advisor.datasets._image_groups import Grouping, Source
from advisor.datasets._split import draw_split
from tests.builders import must_fail

counts = st.lists(st.integers(3, 15), min_size=2, max_size=4)
seeds = st.integers(0, 2**32)
TRAIN, VALIDATION, HOLDOUT = SplitPart
parts = st.sampled_from(SplitPart)
sizes = st.lists(st.integers(1, 6), min_size=3, max_size=7)


def _dataset(rows: list[tuple[int, str]], classes: int) -> Dataset:
    """A dataset from (label, content) rows; equal contents are equal files."""
    root = Path("data")
    names = tuple(f"class {label}" for label in range(classes))
    images = tuple(
        LabelledImage(root / names[label] / f"{place}.jpg", label, f"{content}")
        for place, (label, content) in enumerate(rows)
    )
    return Dataset(root, names, images, (), compute_fingerprint(names, images))


def _plain(counts: list[int]) -> Dataset:
    rows = [(label, f"{label}-{number}") for label, count in enumerate(counts) for number in range(count)]
    return _dataset(rows, len(counts))


def _hashes(dataset: Dataset, seed: int) -> list[set[str]]:
    return [{dataset.images[index].sha256 for index in part} for part in _parts(draw_split(dataset, seed))]


@given(counts, seeds)
def test_sides_are_disjoint_and_complete_and_have_every_class(sizes: list[int], seed: int) -> None:
    dataset = _plain(sizes)
    result = draw_split(dataset, seed)
    assert sorted((*result.train, *result.validation, *result.holdout)) == list(range(len(dataset.images)))
    assert sorted((*result.learnt, *result.holdout)) == list(range(len(dataset.images)))
    for part in (result.train, result.validation, result.holdout):
        assert {dataset.images[index].label for index in part} == set(range(len(sizes)))


@given(st.lists(st.integers(5, 25), min_size=2, max_size=4), seeds, st.floats(0.05, 0.6))
def test_each_class_gives_its_share_and_that_of_the_rest_to_checking(sizes: list[int], seed: int, share: float) -> None:
    dataset = _plain(sizes)
    result, other = draw_split(dataset, seed, share), draw_split(dataset, seed, validation=share)
    aside, compared, left = (
        Counter(dataset.images[index].label for index in part)
        for part in (result.holdout, other.validation, other.learnt)
    )
    for label, size in enumerate(sizes):
        assert aside[label] in (min(max(1, round(share * size)), size - 1), max(1, round(share * size)))
        assert compared[label] == min(max(1, round(share * left[label])), left[label] - 1)


@given(st.lists(st.integers(2, 20), min_size=2, max_size=4), seeds)
def test_halves_share_no_group_and_leave_nothing_out(sizes: list[int], seed: int) -> None:
    dataset = _plain(sizes)
    some = range(1, len(dataset.images))
    first, second = split_halves(dataset, some, seed, together=[[1, 2]])
    assert sorted((*first, *second)) == list(some)
    assert {1, 2} <= set(first) or {1, 2} <= set(second)
    for label in range(len(sizes)):
        shares = [sum(dataset.images[index].label == label for index in half) for half in (first, second)]
        assert abs(shares[0] - shares[1]) <= 3


@given(counts, seeds, st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(sizes: list[int], seed: int, random: object) -> None:
    dataset = _plain(sizes)
    shuffled = list(dataset.images)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = replace(dataset, images=tuple(shuffled))
    for one, two in zip(_hashes(dataset, seed), _hashes(other, seed), strict=True):
        assert one == two


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12)), min_size=1, max_size=30), seeds)
def test_copies_stay_on_one_side_even_across_classes(rows: list[tuple[int, int]], seed: int) -> None:
    plenty = [(label, f"own {label} {number}") for label in (0, 1) for number in range(20)]
    dataset = _dataset([*plenty, *((label, f"shared {content}") for label, content in rows)], 2)
    train, validation, holdout = _hashes(dataset, seed)
    assert not train & holdout | train & validation | validation & holdout


@given(st.lists(st.lists(st.integers(0, 39), min_size=2, max_size=4), max_size=8), seeds)
def test_what_belongs_together_stays_on_one_side(together: list[list[int]], seed: int) -> None:
    dataset = _plain([30, 30])
    for part in _parts(draw_split(dataset, seed, together=together)):
        assert all(len({index in part for index in group}) == 1 for group in together)


@given(st.lists(st.lists(st.integers(0, 19), min_size=2, max_size=4), max_size=8))
def test_images_share_a_number_if_a_chain_of_groups_connects_them(together: list[list[int]]) -> None:
    numbers = _units.number_units(_plain([10, 10]), together)
    connected = {index: {index} for index in range(20)}
    for group in together:
        merged = set().union(*(connected[index] for index in group))
        connected.update(dict.fromkeys(merged, merged))
    for index, number in enumerate(numbers):
        assert {other for other in range(20) if numbers[other] == number} == connected[index]
    assert list(dict.fromkeys(numbers)) == list(range(max(numbers) + 1))


def test_a_split_without_groups_has_not_changed_since_it_was_first_drawn() -> None:
    result = draw_split(_plain([12, 15]), 7, together=[[0, 1, 2], [14, 20]])
    assert result.validation == (5, 8, 13, 23)
    assert result.holdout == (6, 7, 12, 17, 21)


@pytest.mark.parametrize(
    ("dataset", "given", "share", "message"),
    [
        (_dataset([(0, f"{number}") for number in range(9)] + [(1, "same")] * 9, 2), [], 0.2, "'class 1'"),
        (_plain([9, 9]), [], 1.0, r"1\.0"),
        (_plain([2, 2]), [], 0.2, "left for validation"),
        (_plain([9, 9]), [None, "dev", *[None] * 16], 0.2, r"'data/class 0/1.jpg': 'dev' is not a part"),
        (_plain([20, 20]), [TRAIN] * 10 + [HOLDOUT] * 6 + [VALIDATION] * 24, 0.2, "of 'class 1' in the training part"),
    ],
)
def test_no_impossible_split_is_made(dataset: Dataset, given: list[str | None], share: float, message: str) -> None:
    must_fail(UsageError, message, draw_split, dataset, 0, share, given=given)


@given(st.lists(parts, min_size=40, max_size=40), seeds)
def test_a_split_of_the_users_own_is_taken_as_it_is(named: list[str], seed: int) -> None:
    given = [TRAIN, VALIDATION, HOLDOUT] * 2 + named
    dataset = _dataset([(place // 3 % 2 if place < 6 else place % 2, f"{place}") for place in range(46)], 2)
    result = draw_split(dataset, seed, given=given)
    for name, part in zip((TRAIN, VALIDATION, HOLDOUT), _parts(result), strict=True):
        assert [given[index] for index in part] == [name] * given.count(name)
    assert result.given == (TRAIN, VALIDATION, HOLDOUT)


@pytest.mark.parametrize("second", [VALIDATION, HOLDOUT])
def test_the_second_part_of_two_is_the_hold_out_and_validation_is_drawn_from_the_first(second: str) -> None:
    dataset = _plain([20, 20])
    given = [TRAIN if place % 20 < 15 else second for place in range(40)]
    result = draw_split(dataset, 0, given=given)
    assert result.holdout == tuple(place for place in range(40) if given[place] == second)
    assert Counter(dataset.images[index].label for index in result.validation) == {0: 3, 1: 3}
    assert result.given == (TRAIN, HOLDOUT)


def test_images_without_a_part_are_dealt_out_and_what_belongs_with_one_of_the_hold_out_follows_it() -> None:
    dataset = _plain([40, 40])
    given = [None if place % 40 < 20 else (TRAIN, VALIDATION, HOLDOUT)[place % 3] for place in range(80)]
    result = draw_split(dataset, 0, given=given)
    unnamed = {place for place in range(80) if given[place] is None}
    assert [len(unnamed & part) for part in _parts(result)] == [26, 6, 8]
    dataset = _plain([20, 20])
    given: list[str | None] = [None] * 40
    given[3], given[7] = TRAIN, HOLDOUT
    result = draw_split(dataset, 0, together=[[3, 7, 9]], given=given)
    assert 9 in result.holdout
    assert 3 in result.train


def test_a_class_of_two_images_or_two_groups_of_the_user_has_no_validation() -> None:
    dataset = _plain([2, 9])
    result = draw_split(dataset, 0)
    assert {dataset.images[index].label for index in result.validation} == {1}
    assert {dataset.images[index].label for index in result.holdout} == {0, 1}
    dataset, of = _dataset_of_whole_groups([(0, 6), (0, 6), (1, 4), (1, 4), (1, 4)])
    result = draw_split(dataset, 0, grouping=Grouping(of, Source.MANIFEST))
    assert {dataset.images[index].label for index in result.validation} == {1}


def _dataset_of_whole_groups(groups: list[tuple[int, int]]) -> tuple[Dataset, tuple[int, ...]]:
    """A dataset of (class, images) groups, and the group of each image."""
    rows = [(label, number) for number, (label, count) in enumerate(groups) for _ in range(count)]
    dataset = _dataset([(label, f"{place}") for place, (label, _) in enumerate(rows)], max(rows)[0] + 1)
    return dataset, tuple(number for _, number in rows)


def _parts(result: Split) -> tuple[set[int], ...]:
    return set(result.train), set(result.validation), set(result.holdout)


@given(sizes, sizes, seeds, st.sampled_from([Source.MANIFEST, Source.APPEARANCE]))
def test_a_group_is_in_one_part_and_three_in_all(one: list[int], other: list[int], seed: int, source: Source) -> None:
    dataset, of = _dataset_of_whole_groups([*((0, count) for count in one), *((1, count) for count in other)])
    result = draw_split(dataset, seed, grouping=Grouping(of, source))
    for number in set(of):
        members = {index for index, group in enumerate(of) if group == number}
        assert sum(bool(members & part) for part in _parts(result)) == 1
    for part in _parts(result):
        assert {dataset.images[index].label for index in part} == {0, 1}


@given(st.lists(st.integers(1, 4), min_size=10, max_size=20), seeds)
def test_the_shares_are_close_to_those_of_single_images(counts: list[int], seed: int) -> None:
    dataset, of = _dataset_of_whole_groups([(label, count) for label in (0, 1) for count in counts])
    result = draw_split(dataset, seed, grouping=Grouping(of, Source.CAMERA))
    total = Counter(dataset.labels)
    aside = Counter(dataset.images[index].label for index in result.holdout)
    for label, count in total.items():
        assert abs(aside[label] - 0.2 * count) <= 2


@pytest.mark.parametrize("ending", ["", "²"])  # a sign that is no digit
def test_a_class_with_one_inferred_group_gives_its_last_images_in_the_order_of_numbers(ending: str) -> None:
    dataset, of = _dataset_of_whole_groups([(0, 12), (1, 4), (1, 4), (1, 4)])
    images = tuple(replace(image, path=image.path.with_name(f"{n}{ending}")) for n, image in enumerate(dataset.images))
    result = draw_split(replace(dataset, images=images), 0, grouping=Grouping(of, Source.SEQUENCE))
    assert {index for index in result.holdout if index < 12} == {10, 11}
    assert {index for index in result.validation if index < 12} == {8, 9}


def test_a_class_with_one_group_of_the_user_is_refused_by_name() -> None:
    dataset, of = _dataset_of_whole_groups([(0, 12), (1, 4), (1, 4), (1, 4)])
    with pytest.raises(UsageError, match="'class 0' is left for the hold-out: all of the class are in one group"):
        draw_split(dataset, 0, grouping=Grouping(of, Source.MANIFEST))


@given(seeds)
def test_a_group_of_several_classes_stays_whole(seed: int) -> None:
    dataset, _ = _dataset_of_whole_groups([(label, 12) for label in (0, 1, 2)])
    of = tuple(index % 6 for index in range(36))
    result = draw_split(dataset, seed, grouping=Grouping(of, Source.CAMERA))
    assert [len(part) for part in _parts(result)] == [24, 6, 6]
    for part in _parts(result):
        assert all({j for j in range(36) if of[j] == of[index]} <= part for index in part)


def test_seeds_draw_different_images_and_groups() -> None:
    dataset, of = _dataset_of_whole_groups([(label, 4) for label in (0, 1) for _ in range(10)])
    drawn = {draw_split(dataset, seed, grouping=Grouping(of, Source.CAMERA)).holdout for seed in range(5)}
    assert len(drawn) > 1
    assert draw_split(dataset, 0).holdout != draw_split(dataset, 1).holdout


def test_the_record_has_each_image_with_its_group_and_the_source_of_the_groups() -> None:
    dataset, of = _dataset_of_whole_groups([(label, 4) for label in (0, 1) for _ in range(4)])
    grouping = Grouping(of, Source.CAMERA)
    result = draw_split(dataset, 0, grouping=grouping)
    record = result.to_json(dataset, grouping)
    assert (record["seed"], record["fingerprint"]) == (0, dataset.fingerprint)
    assert [row["sha256"] for row in record["holdout"]] == [dataset.images[index].sha256 for index in result.holdout]  # type: ignore[attr-defined]
    assert record["train"][0]["path"] == "class 0/" + dataset.images[result.train[0]].path.name  # type: ignore[index]
    assert record["grouping"] == {"source": Source.CAMERA.value, "groups": 8, "largest": 4}
    assert [row["group"] for row in record["holdout"]] == [of[index] for index in result.holdout]  # type: ignore[attr-defined]
