from __future__ import annotations

from pathlib import Path

import pytest

from advisor.datasets.boxes.reading import BoxSurvey, survey_boxes
from advisor.datasets.checks.object_sizes import INPUTS, object_sizes, small_objects
from tests.datasets.boxes.writers import Photo, write_table

LARGE = (640, 480)


def _read(tmp_path: Path, small: int, large: int) -> BoxSurvey:
    """Read a set with boxes of 14 x 14 and of 100 x 100 pixels in images of 640 x 480."""
    boxes = [("cat", 20.0 * n, 5.0, 20.0 * n + 14, 19.0) for n in range(small)]
    boxes += [("dog", 20.0 * n, 50.0, 20.0 * n + 100, 150.0) for n in range(large)]
    return survey_boxes(write_table(tmp_path, [Photo("a", tuple(boxes), size=LARGE)]))


def test_sizes_are_roots_of_areas_in_pixels_of_the_input(tmp_path: Path) -> None:
    sizes = object_sizes(_read(tmp_path, 1, 0))
    assert [one.input for one in sizes] == list(INPUTS)
    expected = (14 * 224 / 640 * 14 * 224 / 480) ** 0.5
    assert next(one for one in sizes if one.input == 224).median == pytest.approx(expected)


def test_many_small_objects_are_named_with_what_a_larger_input_gives(tmp_path: Path) -> None:
    (finding,) = small_objects(object_sizes(_read(tmp_path, 3, 5)))
    assert finding.message == "38 % of your objects are under 8 pixels at 224 (0 % at 320)"
    assert "choose a larger input" in finding.advice


def test_few_small_objects_are_not_named(tmp_path: Path) -> None:
    assert list(small_objects(object_sizes(_read(tmp_path, 1, 12)))) == []
