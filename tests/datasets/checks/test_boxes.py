import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageFilter
from skimage import data as skimage_data

from advisor.core import UsageError
from advisor.datasets import Box, BoxSurvey, Finding, Kind, ObjectSizes, Split, check_boxes, check_survey
from advisor.datasets._checks.boxes import (
    INPUTS,
    count_boxes_in_parts,
    find_same_places,
    find_small_objects,
    require_usable_boxes,
)
from advisor.datasets._duplicates import Pair
from advisor.datasets._image_stats import measure_image
from advisor.datasets._survey import Survey
from tests.builders import must_fail
from tests.datasets.boxes.writers import Object, Photo, photos, write, write_table, write_yolo
from tests.datasets.folders import fill, image, make
from tests.tables import with_cases

LARGE = (640, 480)


def _checked(read: BoxSurvey, kind: Kind) -> list[Finding]:
    return [finding for finding in check_boxes(read, Pair.find_alike(read.images.thumbnails)) if finding.kind is kind]


def _with(tmp_path: Path, *objects: Object, others: int = 12) -> BoxSurvey:
    """Read a clean set of two classes and an image with these boxes."""
    return BoxSurvey.read_images(write_table(tmp_path, [*photos(others, "cat", "dog"), Photo("suspect", objects)]))


def test_a_clean_set_has_no_findings_on_boxes_copies_or_classes(tmp_path: Path) -> None:
    kinds = {finding.kind for finding in check_boxes(_with(tmp_path, ("cat", 2, 2, 40, 40), others=60), ())}
    assert kinds <= {Kind.SIZE, Kind.CAPTURE}
    kinds = {finding.kind for finding in check_survey(Survey.read(make(tmp_path, cat=60, dog=70)))}
    assert kinds <= {Kind.SIZE, Kind.CAPTURE}


@with_cases
def test_a_fault_is_found_there(tmp_path: Path, kind: str, objects: list[Any], message: str, note: str) -> None:
    (finding,) = _checked(_with(tmp_path, *map(tuple, objects)), Kind[kind])
    assert message in finding.message
    assert [[path.stem for path in group] for group in finding.groups] == [["suspect"]]
    assert note in "".join(finding.notes)


def test_repeated_boxes_are_found_across_blocks_and_boxes_of_neighbours_are_not_repeated() -> None:
    boxes = [Box("cat", 12 * (n % 30), 12 * (n // 30), 12 * (n % 30) + 10, 12 * (n // 30) + 10) for n in range(900)]
    assert find_same_places([*boxes, boxes[17]]) == [(17, 900)]
    boxes = [Box("cat", 0, 0, 20, 20), Box("cat", 2, 0, 22, 20), Box("cat", 0, 0, 20, 21)]
    assert find_same_places(boxes) == [(0, 2)]


@with_cases
def test_spellings_and_small_classes_are_named(tmp_path: Path, kind: str, objects: list[Any], message: str) -> None:
    (finding,) = _checked(_with(tmp_path, *map(tuple, objects), others=60), Kind[kind])
    assert message in finding.message


def test_classes_without_a_box_are_named(tmp_path: Path) -> None:
    root = write_yolo(tmp_path, photos(60, "cat"))
    write(root / "data.yaml", "names: [cat, animals]")
    (finding,) = _checked(BoxSurvey.read_images(root), Kind.SMALL_CLASS)
    assert "no box of 'animals'" in finding.message


def test_a_part_without_boxes_of_a_class_is_named_and_images_in_no_part_are_counted(tmp_path: Path) -> None:
    made = [Photo(f"{part}{n}", photo.objects, part) for part, labels in (("train", ("cat", "dog")), ("test", ("cat",)))
            for n, photo in enumerate(photos(4, *labels))]  # fmt: skip
    findings = _checked(BoxSurvey.read_images(write_table(tmp_path, made)), Kind.SPLIT)
    assert [finding.message for finding in findings] == ["the holdout part has no box of 'dog'"]
    made = [Photo(f"{n}", photo.objects, ("train", "test", "")[n % 3]) for n, photo in enumerate(photos(9, "cat"))]
    findings = _checked(BoxSurvey.read_images(write_table(tmp_path, made)), Kind.SPLIT)
    assert [finding.message for finding in findings] == ["3 images are in no part of your split"]


def test_copies_and_unreadable_images_are_found_as_without_boxes(tmp_path: Path) -> None:
    table = write_table(tmp_path, [*photos(4, "cat"), Photo("copy", (("cat", 5, 5, 40, 40),)), Photo("bad")])
    shutil.copy(tmp_path / "001.jpg", tmp_path / "copy.jpg")
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff")
    read = BoxSurvey.read_images(table)
    assert len(_checked(read, Kind.EXACT_DUPLICATES)) == len(_checked(read, Kind.UNREADABLE)) == 1


@with_cases
def test_what_a_search_cannot_learn_from_is_refused(tmp_path: Path, box: list[Any], times: int, message: str) -> None:
    made = [*photos(10, "cat"), Photo("a", (tuple(box),) * times)]
    must_fail(UsageError, message, require_usable_boxes, BoxSurvey.read_images(write_table(tmp_path, made)))


@with_cases
def test_a_split_that_cannot_be_used_is_refused(tmp_path: Path, parts: list[list[int]], message: str) -> None:
    cat, dog = photos(1, "cat")[0].objects, photos(1, "dog")[0].objects
    made = [Photo(f"{n}", objects) for n, objects in enumerate((cat, cat, cat, dog, ()))]
    split = Split(*map(tuple, parts), seed=0)
    must_fail(UsageError, message, count_boxes_in_parts, BoxSurvey.read_images(write_table(tmp_path, made)), split)


def _read(tmp_path: Path, small: int, large: int) -> BoxSurvey:
    """Read a set with boxes of 14 x 14 and of 100 x 100 pixels in images of 640 x 480."""
    boxes = [("cat", 20.0 * n, 5.0, 20.0 * n + 14, 19.0) for n in range(small)]
    boxes += [("dog", 20.0 * n, 50.0, 20.0 * n + 100, 150.0) for n in range(large)]
    return BoxSurvey.read_images(write_table(tmp_path, [Photo("a", tuple(boxes), size=LARGE)]))


def test_sizes_are_roots_of_areas_in_pixels_of_the_input(tmp_path: Path) -> None:
    sizes = ObjectSizes.measure_objects(_read(tmp_path, 1, 0))
    assert [one.input for one in sizes] == list(INPUTS)
    expected = (14 * 224 / 640 * 14 * 224 / 480) ** 0.5
    assert next(one for one in sizes if one.input == 224).median == pytest.approx(expected)


def test_many_small_objects_alone_are_named_with_what_a_larger_input_gives(tmp_path: Path) -> None:
    (finding,) = find_small_objects(ObjectSizes.measure_objects(_read(tmp_path, 3, 5)))
    assert finding.message == "38 % of your objects are under 8 pixels at 224 (0 % at 320)"
    assert "choose a larger input" in finding.advice
    assert list(find_small_objects(ObjectSizes.measure_objects(_read(tmp_path, 1, 12)))) == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "data", cat=12, dog=14)


def _findings(root: Path, *kinds: Kind) -> list[Finding]:
    return [finding for finding in check_survey(Survey.read(root)) if finding.kind in kinds]


def _names(finding: Finding) -> list[set[str]]:
    return [{path.name for path in group} for group in finding.groups]


def test_small_and_unequal_classes_and_odd_sizes_are_named(root: Path) -> None:
    fill(root / "dog", 56, first=300)
    fill(root / "owl", 9, first=900)
    small, unequal = _findings(root, Kind.SMALL_CLASS, Kind.IMBALANCE)
    assert "'owl' (9)" in small.message
    assert "'dog' has 7.8 times as many" in unequal.message
    image(77, (400, 100)).save(root / "cat" / "panorama.jpg")
    long = next(finding for finding in _findings(root, Kind.SIZE) if "as long" in finding.message)
    assert _names(long) == [{"panorama.jpg"}]


@with_cases
def test_capture_conditions_are_seen(root: Path, name: str, message: str) -> None:
    photograph = Image.fromarray(skimage_data.chelsea())
    made = {
        "dark": photograph.point(lambda value: value // 5),
        "bright": photograph.point(lambda value: 255 - (255 - value) // 8),
        "poor": photograph,
        "soft": photograph.filter(ImageFilter.GaussianBlur(20)),
    }[name]
    made.save(root / "cat" / f"{name}.jpg", quality=12 if name == "poor" else 95)
    found = [finding for finding in _findings(root, Kind.CAPTURE) if message in finding.message and finding.groups]
    assert {f"{name}.jpg"} in _names(found[0])


def test_absent_conditions_are_named(root: Path) -> None:
    assert any("very dark" in finding.message and not finding.groups for finding in _findings(root, Kind.CAPTURE))


@pytest.mark.parametrize("quality", [20, 50, 75, 95])
def test_jpeg_quality_is_read_from_the_file_and_other_formats_have_none(tmp_path: Path, quality: int) -> None:
    for name, expected in (("a.jpg", pytest.approx(quality, abs=1)), ("a.png", 0)):
        image(1).save(tmp_path / name, quality=quality)
        assert measure_image((tmp_path / name).read_bytes()).stats.jpeg_quality == expected
