from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from advisor.datasets.boxes import Box
from advisor.datasets.boxes.reading import BoxSurvey, survey_boxes
from advisor.datasets.checks.boxes import check_boxes, same_places
from advisor.datasets.checks.findings import Finding, Kind
from advisor.datasets.duplicates import near_duplicates
from tests.datasets.boxes.writers import Photo, photos, save, write, write_table, write_yolo


def _checked(read: BoxSurvey, kind: Kind) -> list[Finding]:
    return [finding for finding in check_boxes(read, near_duplicates(read.images.thumbnails)) if finding.kind is kind]


def _with(tmp_path: Path, *objects: tuple[str, float, float, float, float]) -> BoxSurvey:
    """Read a clean set of two classes and an image with these boxes."""
    return survey_boxes(write_table(tmp_path, [*photos(60, "cat", "dog"), Photo("suspect", objects)]))


def test_a_clean_set_has_no_findings_on_boxes(tmp_path: Path) -> None:
    kinds = {finding.kind for finding in check_boxes(_with(tmp_path, ("cat", 2, 2, 40, 40)), ())}
    assert kinds <= {Kind.SIZE, Kind.CAPTURE}


@pytest.mark.parametrize(
    ("kind", "objects", "message", "note"),
    [
        (Kind.OUTSIDE, [("cat", 40, 10, 80, 30)], "1 box reaches over the edge", "cat 40x20 at 40,10"),
        (Kind.TINY, [("cat", 10, 10, 12, 30)], "1 box is under 3 pixels a side, in 1 image", "cat 2x20 at 10,10"),
        (Kind.REPEATED_BOXES, [("cat", 5, 5, 40, 40)] * 3, "2 boxes repeat another one", "cat 35x35 at 5,5"),
        (
            Kind.TWO_LABELS, [("cat", 5, 5, 40, 40), ("dog", 5, 5, 40, 41)],
            "2 boxes have the place of a box of another class", "cat 35x35 at 5,5, dog 35x36 at 5,5",
        ),
        (Kind.NO_BOXES, [], "1 image has no box", ""),
        (Kind.UNUSABLE_BOXES, [("cat", 40, 5, 5, 40)], "1 box was left out: the right edge", "row 122 of 'set.csv'"),
    ],
)  # fmt: skip
def test_a_fault_is_found_in_its_image(
    tmp_path: Path, kind: Kind, objects: list[tuple[str, float, float, float, float]], message: str, note: str
) -> None:
    (finding,) = _checked(_with(tmp_path, *objects), kind)
    assert message in finding.message
    assert [[path.stem for path in group] for group in finding.groups] == [["suspect"]]
    assert note in "".join(finding.notes)


def test_boxes_of_neighbours_are_not_repeated() -> None:
    boxes = [Box("cat", 0, 0, 20, 20), Box("cat", 2, 0, 22, 20), Box("cat", 0, 0, 20, 21)]
    assert same_places(boxes) == [(0, 2)]


def test_repeated_boxes_are_found_among_five_thousand() -> None:
    boxes = [
        Box("cat", 12 * (n % 100), 12 * (n // 100), 12 * (n % 100) + 10, 12 * (n // 100) + 10) for n in range(5000)
    ]
    assert same_places([*boxes, boxes[17]]) == [(17, 5000)]


def test_labels_of_two_spellings_are_named(tmp_path: Path) -> None:
    (finding,) = _checked(_with(tmp_path, ("Cat", 5, 5, 40, 40)), Kind.SPELLING)
    assert "'Cat' and 'cat'" in finding.message


def test_classes_with_few_boxes_are_named_with_their_counts(tmp_path: Path) -> None:
    (finding,) = _checked(_with(tmp_path, ("owl", 5, 5, 20, 20), ("owl", 30, 5, 50, 20)), Kind.SMALL_CLASS)
    assert "fewer than 50 boxes of 'owl' (2 in 1 image)" in finding.message


def test_classes_without_a_box_are_named(tmp_path: Path) -> None:
    root = write_yolo(tmp_path, photos(60, "cat"))
    write(root / "data.yaml", "names: [cat, animals]")
    (finding,) = _checked(survey_boxes(root), Kind.SMALL_CLASS)
    assert "no box of 'animals'" in finding.message


def test_a_part_without_boxes_of_a_class_is_named(tmp_path: Path) -> None:
    made = [Photo(f"{part}{n}", photo.objects, part) for part, labels in (("train", ("cat", "dog")), ("test", ("cat",)))
            for n, photo in enumerate(photos(4, *labels))]  # fmt: skip
    findings = _checked(survey_boxes(write_table(tmp_path, made)), Kind.SPLIT)
    assert [finding.message for finding in findings] == ["the holdout part has no box of 'dog'"]


def test_images_in_no_part_of_the_users_split_are_counted(tmp_path: Path) -> None:
    made = [Photo(f"{n}", photo.objects, ("train", "test", "")[n % 3]) for n, photo in enumerate(photos(9, "cat"))]
    findings = _checked(survey_boxes(write_table(tmp_path, made)), Kind.SPLIT)
    assert [finding.message for finding in findings] == ["3 images are in no part of your split"]


def test_copies_and_unreadable_images_are_found_as_without_boxes(tmp_path: Path) -> None:
    table = write_table(tmp_path, [*photos(4, "cat"), Photo("copy", (("cat", 5, 5, 40, 40),)), Photo("bad")])
    shutil.copy(tmp_path / "001.jpg", tmp_path / "copy.jpg")
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff")
    read = survey_boxes(table)
    assert len(_checked(read, Kind.EXACT_DUPLICATES)) == len(_checked(read, Kind.UNREADABLE)) == 1


def test_the_place_of_the_subject_is_no_fault(tmp_path: Path) -> None:
    save(tmp_path / "x" / "a.jpg")
    messages = [finding.message for finding in check_boxes(_with(tmp_path, ("cat", 5, 5, 40, 40)), ())]
    assert not any("framed" in message for message in messages)


@pytest.mark.integration
def test_faults_of_bccd_are_found(bccd: Path) -> None:
    read = survey_boxes(bccd)
    found = {finding.kind: finding.message for finding in check_boxes(read, near_duplicates(read.images.thumbnails))}
    assert found[Kind.UNUSABLE_BOXES] == "2 boxes were left out: no width or no height (2)"
    assert found[Kind.REPEATED_BOXES] == "7 boxes repeat another one, in 7 images"
    assert found[Kind.LEAK] == "1 image lies in more than one part of the split"
