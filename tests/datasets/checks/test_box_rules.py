from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.checks.check import boxes_in_parts, lacking, require_usable_boxes
from advisor.datasets.split import Split
from tests.datasets.boxes.writers import Object, Photo, photos, write_table

BAD: Object = ("cat", 40, 5, 5, 40)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([Photo("a", (("Cat", 5, 5, 40, 40),))], "'Cat' and 'cat' differ only by case or blanks"),
        ([Photo("a", (("owl", 5, 5, 40, 40),))], r"fewer than 8 images with a box of 'owl' \(1\)"),
        ([Photo("a", (BAD,) * 4)], r"4 of 14 boxes cannot be used \(29 %.*row 12 of 'set.csv': the right edge"),
    ],
)
def test_what_a_search_cannot_learn_from_is_refused(tmp_path: Path, more: list[Photo], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        require_usable_boxes(survey_boxes(write_table(tmp_path, [*photos(10, "cat"), *more])))
    assert caught.value.hint


def test_too_many_missing_images_are_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path, photos(10, "cat"))
    for name in ("000", "001", "002"):
        (tmp_path / f"{name}.jpg").unlink()
    with pytest.raises(UsageError, match="3 of 10 images"):
        require_usable_boxes(survey_boxes(table))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (Split((0, 1, 2), (3,), (4,), 0), "the holdout part has 1 image, but no box"),
        (Split((0, 1), (2,), (3,), 0), "the training part has no box of 'dog'"),
    ],
)
def test_a_split_that_cannot_be_used_is_refused(tmp_path: Path, split: Split, message: str) -> None:
    cat, dog = photos(1, "cat")[0].objects, photos(1, "dog")[0].objects
    made = [Photo(f"{n}", objects) for n, objects in enumerate((cat, cat, cat, dog, ()))]
    with pytest.raises(UsageError, match=message) as caught:
        boxes_in_parts(survey_boxes(write_table(tmp_path, made)), split)
    assert caught.value.hint


def test_a_class_that_the_holdout_lacks_is_told(tmp_path: Path) -> None:
    read = survey_boxes(write_table(tmp_path, [*photos(2, "cat", "dog"), Photo("x", (("cat", 5, 5, 20, 20),))]))
    counts = boxes_in_parts(read, Split((0,), (1,), (2,), 0))
    assert counts["holdout"] == {"cat": 1, "dog": 0}
    assert lacking(counts) == ("The holdout part has no box of dog: no average precision there.",)
