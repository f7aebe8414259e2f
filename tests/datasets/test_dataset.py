"""Draw some files of a large listing."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.datasets import Entry, Listing, Survey
from advisor.datasets._dataset import LEAST, SPARED, draw_files
from tests.datasets.folders import make

pytestmark = pytest.mark.integration


def listing(counts: dict[str, int], root: Path = Path("photos"), part: str = "", group: int = 0) -> Listing:
    """Return a listing with so many files of each class, in groups of ``group`` files."""
    entries = [
        Entry(root / label / f"{number:05d}.jpg", label, part, f"{label} {number // group}" if group else "")
        for label, count in counts.items()
        for number in range(count)
    ]
    return Listing(root, entries)


def counts(found: Listing) -> Counter[str]:
    return Counter(entry.label for entry in found.entries)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 400), min_size=1), st.integers(1, 500))
def test_each_class_keeps_its_share_and_a_rare_one_its_files(sizes: dict[str, int], most: int) -> None:
    whole = listing(sizes)
    found = draw_files(whole, most)
    if len(whole.entries) <= SPARED * most:
        assert found is whole
    else:
        share = most / len(whole.entries)
        for label, count in sizes.items():
            wanted = max(round(share * count), min(LEAST, count))
            assert wanted <= counts(found)[label] < wanted + 10


def test_files_stay_in_the_order_of_the_listing_and_neighbours_are_drawn_together() -> None:
    whole = listing({"cat": 900, "dog": 600})
    order = {entry.path: place for place, entry in enumerate(whole.entries)}
    places = [order[entry.path] for entry in draw_files(whole, 200).entries]
    assert places == sorted(set(places))
    numbers = [int(entry.path.stem) for entry in draw_files(listing({"cat": 2000}), 200).entries]
    assert {number // 10 for number in numbers} == {number // 10 for number in numbers[::10]}
    assert len(numbers) == 200


def test_parts_of_the_own_split_and_many_named_groups_keep_their_shares_and_are_drawn_alike_elsewhere() -> None:
    train, test = (listing({"cat": count}, part=part) for count, part in ((4000, "train"), (1000, "holdout")))
    found = draw_files(replace(train, entries=[*train.entries, *test.entries]), 500)
    assert Counter(entry.part for entry in found.entries) == {"train": 400, "holdout": 100}
    sizes = {"cat": 900, "dog": 300}
    here, there = (draw_files(listing(sizes, Path(root)), 150) for root in ("photos", "/data/of/a/team"))
    assert [entry.path.parts[-2:] for entry in here.entries] == [entry.path.parts[-2:] for entry in there.entries]
    found = draw_files(listing({"cat": 900, "dog": 900}, group=30), 300)
    assert len({entry.group for entry in found.entries}) == 60
    assert counts(found) == {"cat": 150, "dog": 150}


def test_a_data_set_says_how_many_files_were_listed(tmp_path: Path) -> None:
    root = make(tmp_path / "data", cat=60, dog=60)
    some, whole = Survey.read(root, most=40).dataset, Survey.read(root).dataset
    assert (len(some.images), some.listed, some.most) == (40, 120, 40)
    assert (len(whole.images), whole.listed, whole.most) == (120, 120, 0)
