from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.boxes.strata import LEAST, NO_BOX, OTHERS, strata, stratified
from advisor.datasets.division import divide
from advisor.datasets.split import PARTS
from tests.datasets.boxes.writers import Photo, write_table

CONTENTS = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 30), max_size=3).map(lambda found: Counter(found)),
    min_size=1,
)


def _of(
    *contents: tuple[int, dict[str, int]], groups: list[int] | None = None, parts: list[str] | None = None
) -> Counter[str]:
    made = [Counter(content) for count, content in contents for _ in range(count)]
    return Counter(strata(made, groups or range(len(made)), parts or [""] * len(made)))


def test_an_image_belongs_to_its_rarest_class() -> None:
    found = _of((40, {"common": 2}), (20, {"common": 1, "rare": 1}))
    assert found == {"common, few boxes": 40, "rare, few boxes": 20}


def test_crowded_images_are_a_stratum() -> None:
    found = _of((20, {"a": 1}), (20, {"a": 5}), (20, {"a": 50}))
    assert found == {"a, few boxes": 20, "a, some boxes": 20, "a, many boxes": 20}


def test_images_without_boxes_are_a_stratum() -> None:
    assert _of((20, {"a": 1}), (LEAST, {}))[NO_BOX] == LEAST


def test_small_strata_of_a_class_are_joined_and_then_small_classes() -> None:
    assert _of((50, {"a": 1}), (6, {"b": 1}), (6, {"b": 9})) == {"a, few boxes": 50, "b": 12}
    assert _of((50, {"a": 1}), (6, {"b": 1}), (6, {"c": 1})) == {"a, few boxes": 50, OTHERS: 12}
    assert _of((50, {"a": 1}), (6, {"b": 1})) == {"a, few boxes": 56}


def test_a_stratum_of_few_groups_is_small() -> None:
    groups = [*range(50), *[50] * 20]
    assert _of((50, {"a": 1}), (20, {"b": 1}), groups=groups) == {"a, few boxes": 70}


def test_a_stratum_that_a_part_of_the_users_split_lacks_is_joined() -> None:
    parts = ["train"] * 25 + ["holdout"] * 25 + ["train"] * 20
    assert _of((50, {"a": 1}), (20, {"b": 1}), parts=parts) == {"a, few boxes": 70}


@given(CONTENTS)
def test_each_image_has_a_stratum_and_small_ones_stand_alone_only(contents: list[Counter[str]]) -> None:
    found = Counter(strata(contents, range(len(contents)), [""] * len(contents)))
    assert found.total() == len(contents)
    assert len(found) == 1 or min(found.values()) >= LEAST


def test_a_drawn_split_has_a_share_of_each_class_and_of_crowded_images_in_each_part(tmp_path: Path) -> None:
    def objects(n: int) -> tuple[tuple[str, float, float, float, float], ...]:
        boxes = 12 if n % 5 == 0 else 1
        label = "rare" if n % 6 == 0 else "common"
        return tuple((label if k == 0 else "common", 4 * k, 3.0, 4 * k + 9, 30.0) for k in range(boxes))

    made = [Photo(f"{n * 7919 % 997:03d}", objects(n)) for n in range(120)]
    read = survey_boxes(write_table(tmp_path, made))
    found = divide(read.images, 0, (), stratified(read)).split
    for part in PARTS:
        contents = [read.contents[index] for index in getattr(found, part)]
        assert 0.12 < sum("rare" in content for content in contents) / len(contents) < 0.22
        assert 0.15 < sum(content.total() == 12 for content in contents) / len(contents) < 0.25


def test_the_users_own_split_is_used_unchanged_although_its_parts_differ(tmp_path: Path) -> None:
    parts = {0: "train", 1: "train", 2: "train", 3: "val", 4: "test"}
    made = [
        Photo(f"{n:03d}", ((f"c{n % 5}" if n % 5 > 2 else "c0", 2.0 + n % 9, 3.0, 30.0, 40.0),), parts[n % 5])
        for n in range(40)
    ]
    read = survey_boxes(write_table(tmp_path, made))
    found = divide(read.images, 0, (), stratified(read)).split
    names = {part: {read.images.dataset.images[i].part for i in getattr(found, part)} for part in PARTS}
    assert names == {part: {part} for part in PARTS}


def test_frames_of_one_film_stay_in_one_part_although_their_boxes_differ(tmp_path: Path) -> None:
    made = [Photo(f"f{n:03d}", (("a" if n % 2 else "b", 2.0, 3.0, 9.0 + n % 20, 30.0),)) for n in range(60)]
    table = write_table(tmp_path, made)
    rows = table.read_text().splitlines()
    film = lambda row: f"film {int(row[1:4]) // 5}"  # noqa: E731
    table.write_text("\n".join([f"{rows[0]},group", *(f"{row},{film(row)}" for row in rows[1:])]))
    read = survey_boxes(table)
    found = divide(read.images, 0, (), stratified(read)).split
    films = [{read.images.dataset.images[i].group for i in getattr(found, part)} for part in PARTS]
    assert not films[0] & films[1]
    assert not films[2] & (films[0] | films[1])
    assert sum(map(len, films)) == 12
