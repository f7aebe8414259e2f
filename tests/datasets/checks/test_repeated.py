from __future__ import annotations

from pathlib import Path

from advisor.datasets.checks.findings import Finding, Kind
from advisor.datasets.checks.repeated import kept_together, leaks, repeated
from advisor.datasets.dataset import Dataset, LabelledImage
from advisor.datasets.duplicates import Pair


def _dataset(*rows: tuple[int, str, str, str]) -> Dataset:
    """A dataset from (label, content, part, group) rows."""
    images = tuple(
        LabelledImage(Path(f"{number}.jpg"), label, content, part, group, (100 + number, 0))
        for number, (label, content, part, group) in enumerate(rows)
    )
    return Dataset(Path(), ("cat", "dog"), images, (), "")


def _found(dataset: Dataset, *links: tuple[int, int]) -> dict[Kind, Finding]:
    return {finding.kind: finding for finding in repeated(dataset, [Pair(*link, 1.0) for link in links])}


def _names(paths: tuple[Path, ...]) -> list[str]:
    return [path.stem for path in paths]


def test_equal_bytes_are_exact_and_others_near_and_all_but_the_largest_go() -> None:
    found = _found(_dataset(*((0, content, "", "") for content in "aabc")), (0, 1), (2, 3))
    assert _names(found[Kind.EXACT_DUPLICATES].leave_out) == ["0"]
    assert _names(found[Kind.NEAR_DUPLICATES].leave_out) == ["2"]


def test_a_image_in_two_classes_is_left_out_altogether_and_reported_once() -> None:
    found = _found(_dataset((0, "a", "", ""), (1, "a", "", ""), (1, "b", "", "")), (0, 1), (1, 2))
    assert set(found) == {Kind.SAME_IMAGE_TWO_CLASSES}
    assert _names(found[Kind.SAME_IMAGE_TWO_CLASSES].leave_out) == ["0", "1", "2"]
    assert found[Kind.SAME_IMAGE_TWO_CLASSES].notes == ("cat and dog",)


def test_of_a_leak_the_copy_in_the_test_part_stays() -> None:
    dataset = _dataset(
        (0, "a", "holdout", ""), (0, "b", "train", ""), (0, "c", "validation", ""), (0, "d", "train", "")
    )
    leak = _found(dataset, (0, 1), (2, 3))[Kind.LEAK]
    assert _names(leak.leave_out) == ["1", "3"]
    assert leak.notes == ("holdout and train", "validation and train")


def test_a_group_in_two_parts_is_a_leak_of_its_own() -> None:
    dataset = _dataset((0, "a", "train", "film"), (0, "b", "holdout", "film"), (0, "c", "train", "other"))
    leak = _found(dataset)[Kind.LEAK]
    assert "1 group lies" in leak.message
    assert leak.notes == ("group 'film': train and holdout",)
    assert leak.leave_out == ()


def test_what_belongs_together_is_alike_or_of_one_group() -> None:
    dataset = _dataset((0, "a", "", "x"), (0, "b", "", ""), (0, "c", "", "x"), (1, "d", "", "y"), (1, "e", "", ""))
    assert kept_together(dataset, [Pair(1, 4, 1.0)]) == ((1, 4), (0, 2))


def test_images_without_a_part_leak_nowhere() -> None:
    dataset = _dataset((0, "a", "train", ""), (0, "a", "", ""), (0, "b", "holdout", ""))
    assert leaks(dataset, [(0, 1)]) == ()
    assert leaks(dataset, [(0, 1, 2)]) == ((0, 1, 2),)
