import csv
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import UsageError
from advisor.datasets import BoxSurvey, Division, Overview, Survey, _units
from advisor.datasets._grouping import PAUSE_S, find_groups, group_by_camera
from advisor.datasets._image_groups import Grouping, Source
from advisor.datasets._image_stats import Shot
from advisor.datasets._parts import PARTS, SplitPart
from advisor.datasets._split import draw_split
from tests.builders import must_fail
from tests.datasets.boxes.writers import Photo, photos, write, write_table, write_without_dogs
from tests.datasets.folders import image, make

START = datetime(2026, 5, 1, 10, 0)


def _scene(place: int, view: int) -> Image.Image:
    """A view of a place: views of one place resemble each other, and are no copies."""
    base = np.asarray(image(place, (64, 64)), np.float64)
    return Image.fromarray(np.clip(base + np.random.default_rng(view).normal(0, 40, base.shape), 0, 255).astype("u1"))


def _scenes(root: Path, count: int, place: Callable[[int], int], stem: Callable[[int], str]) -> Survey:
    """Read two classes of so many views, each of a place and with a name by its number."""
    for label, name in enumerate(("cat", "dog")):
        (root / name).mkdir()
        for number in range(count):
            _scene(10 * label + place(number), 100 * label + number).save(root / name / f"{stem(number)}.png")
    return Survey.read(root)


def _photo(path: Path, pixels: Image.Image, taken: datetime | None, camera: str = "") -> None:
    exif = Image.Exif()
    if camera:
        exif[0x0110] = camera
    if taken:
        exif.get_ifd(0x8769)[0x9003] = taken.strftime("%Y:%m:%d %H:%M:%S")
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels.save(path, exif=exif)


def _groups(grouping: Grouping, names: list[str]) -> set[frozenset[str]]:
    return {frozenset(names[index] for index in group) for group in grouping.members}


def test_names_in_the_manifest_come_first(tmp_path: Path) -> None:
    names = [path.relative_to(tmp_path) for path in sorted(make(tmp_path, cat=4, dog=4).glob("*/*.jpg"))]
    rows = [f"{name},{name.parent},{('x', 'x', '', 'y')[i % 4]}\n" for i, name in enumerate(names)]
    grouping = find_groups(Survey.read(write(tmp_path / "m.csv", "path,label,group\n" + "".join(rows))))
    assert grouping.source is Source.MANIFEST
    assert grouping.of == (0, 0, 1, 2, 0, 0, 3, 2)


def test_one_group_of_everything_is_refused(tmp_path: Path) -> None:
    names = [path.relative_to(tmp_path) for path in make(tmp_path, cat=4, dog=4).glob("*/*.jpg")]
    write(tmp_path / "m.csv", "path,label,group\n" + "".join(f"{name},{name.parent},day\n" for name in names))
    must_fail(UsageError, "all 8 images are in one group, 'day'", find_groups, Survey.read(tmp_path / "m.csv"))


def test_a_pause_and_another_camera_start_a_group(tmp_path: Path) -> None:
    number = 0
    for camera in ("one", "two"):
        for visit in range(2):
            for shot in range(4):
                taken = START + timedelta(seconds=2 * visit * PAUSE_S + 20 * shot)
                path = tmp_path / ("cat", "dog")[shot % 2] / f"{camera}{visit}{shot}x.jpg"
                _photo(path, image(number), taken, camera)
                number += 1
    read = Survey.read(tmp_path)
    grouping = find_groups(read)
    names = [image.path.stem for image in read.dataset.images]
    assert grouping.source is Source.CAMERA
    assert {frozenset(name[:4] for name in group) for group in _groups(grouping, names)} == {
        frozenset({f"{camera}{visit}"}) for camera in ("one", "two") for visit in range(2)
    }


def test_times_suffice_without_a_camera_and_few_say_nothing() -> None:
    later_s = 10 * PAUSE_S
    assert group_by_camera([Shot(0.0), Shot(60.0), Shot(later_s), Shot(later_s + 60)]) == (0, 0, 1, 1)
    assert group_by_camera([Shot(0.0), Shot(60.0), Shot(), Shot()]) == ()


def test_an_image_without_a_time_is_a_group_and_one_burst_of_everything_is_none(tmp_path: Path) -> None:
    of = group_by_camera([Shot(0.0), Shot(60.0), Shot(), Shot(20.0), Shot(30.0), Shot(40.0)])
    assert of[2] not in {of[index] for index in (0, 1, 3, 4, 5)}
    for number in range(12):
        _photo(tmp_path / ("cat", "dog")[number % 2] / f"{number}.jpg", image(number), START, "one")
    assert find_groups(Survey.read(tmp_path)).source is Source.NONE


@pytest.mark.parametrize("written", ["0000:00:00 00:00:00", "yesterday", "", "damaged"])
def test_an_impossible_time_and_damaged_exif_say_nothing(tmp_path: Path, written: str) -> None:
    for seed, name in enumerate(("cat", "dog")):
        path, exif = tmp_path / name / "1.jpg", Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = "2026:05:01 10:00:00" if written == "damaged" else written
        path.parent.mkdir()
        image(seed).save(path, exif=exif)
        if written == "damaged":
            data = path.read_bytes()
            start = data.index(b"Exif\0\0") + 6
            path.write_bytes(data[: start + 8] + b"\xff" * 20 + data[start + 28 :])
    assert [shot.taken_s for shot in Survey.read(tmp_path).shots] == [None, None]


def test_a_jump_in_appearance_starts_a_group_in_a_sequence(tmp_path: Path) -> None:
    read = _scenes(tmp_path, 24, lambda number: number // 6, lambda number: f"IMG_{number}")
    grouping = find_groups(read)
    names = [f"{image.path.parent.name}{int(image.path.stem[4:]) // 6}" for image in read.dataset.images]
    assert grouping.source is Source.SEQUENCE
    assert _groups(grouping, names) == {frozenset({f"{name}{visit}"}) for name in ("cat", "dog") for visit in range(4)}
    assert grouping.largest == 6


def test_a_gap_in_the_numbers_starts_a_group(tmp_path: Path) -> None:
    read = _scenes(tmp_path, 12, lambda number: 5 * (number // 6), lambda n: str(n + (500 if n >= 9 else 0)))
    assert find_groups(read).count == 6


def test_numbers_in_random_order_say_nothing(tmp_path: Path) -> None:
    make(tmp_path, cat=30, dog=30)
    assert find_groups(Survey.read(tmp_path)).source is Source.NONE


def test_names_without_numbers_say_nothing(tmp_path: Path) -> None:
    read = _scenes(tmp_path, 12, lambda number: number // 6, "abcdefghijkl".__getitem__)
    assert find_groups(read).source is not Source.SEQUENCE


def test_groups_lie_inside_one_part_of_the_users_own_split(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            for number in range(6):
                path = tmp_path / part / name / f"{number}.jpg"
                seed = 100 * len(part) + 10 * len(name) + ord(name[0]) + number
                _photo(path, image(seed), START + timedelta(days=number // 3))
    read = Survey.read(tmp_path)
    grouping = find_groups(read)
    assert grouping.source is Source.CAMERA
    assert all(len({read.dataset.images[index].part for index in group}) == 1 for group in grouping.members)


def _manifest(root: Path, groups: int, part_of: dict[str, list[str]] | None = None) -> Path:
    """A manifest of a folder: each class has so many groups, and its images the parts named, one after another."""
    path = root / "set.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "group", "split"))
        for folder in sorted(entry for entry in root.iterdir() if entry.is_dir()):
            for place, file_ in enumerate(sorted(folder.iterdir())):
                group = f"{folder.name}{place % groups}" if groups else ""
                part = (part_of or {}).get(folder.name, [""])
                writer.writerow((file_.relative_to(root), folder.name, group, part[place % len(part)]))
    return path


def test_whole_groups_are_held_out_and_a_sentence_says_so(tmp_path: Path) -> None:
    read = Survey.read(_manifest(make(tmp_path, cat=20, dog=20), groups=5))
    division = Division.of_survey(read, 0)
    assert division.grouping.source is Source.MANIFEST
    assert division.list_notes(read.dataset) == (
        "Images come in 10 groups (column 'group' of the manifest): whole groups are held out, and ranges count them.",
    )
    held = {read.dataset.images[index].group for index in division.split.holdout}
    assert not held & {read.dataset.images[index].group for index in division.split.learnt}


@pytest.mark.parametrize("column", [False, True])
def test_single_images_are_split_as_before_and_nothing_is_said(tmp_path: Path, column: bool) -> None:
    root = make(tmp_path, cat=20, dog=20)
    read = Survey.read(_manifest(root, groups=0) if column else root)
    division = Division.of_survey(read, 3)
    assert division.split == draw_split(read.dataset, 3)
    assert (division.list_notes(read.dataset), division.grouping.of, division.groups) == ((), (), tuple(range(40)))


def test_rows_whose_file_is_missing_are_counted_with_the_first_as_the_plan_shows(tmp_path: Path) -> None:
    path = _manifest(make(tmp_path, cat=20, dog=20), groups=0)
    for gone in (first := min(tmp_path.glob("cat/*")), min(tmp_path.glob("dog/*"))):
        gone.unlink()
    read = Survey.read(path)
    division = Division.of_survey(read, 0)
    line = f"2 listed images are not used; the first: '{first.name}': cannot be read: No such file or directory."
    assert division.list_notes(read.dataset) == (line,)
    assert Overview.of_split(read.dataset, division.split, division.grouping, (line,)).lines[-1] == line


def test_the_users_own_split_is_kept_where_images_come_in_groups(tmp_path: Path) -> None:
    parts = ["train", "train", "val", "test"]
    read = Survey.read(_manifest(make(tmp_path, cat=20, dog=20), 4, {"cat": parts, "dog": parts}))
    division = Division.of_survey(read, 0)
    for part, name in (("train", "train"), ("validation", "validation"), ("holdout", "holdout")):
        assert {read.dataset.images[index].part for index in getattr(division.split, part)} == {name}
    assert division.list_notes(read.dataset) == (
        "Images come in 8 groups (column 'group' of the manifest): your own split is kept, and ranges count groups.",
    )


def test_a_validation_part_that_lacks_classes_is_joined_to_training_and_drawn_again(tmp_path: Path) -> None:
    own = {"cat": ["train", "train", "val", "test"], "dog": ["train", "train", "train", "test"]}
    read = Survey.read(_manifest(make(tmp_path, cat=24, dog=24), 0, own))
    division = Division.of_survey(read, 0)
    parts = [read.dataset.images[index].part for index in division.split.holdout]
    assert parts == ["holdout"] * 12
    assert {read.dataset.images[index].label for index in division.split.validation} == {0, 1}
    assert division.rejoined == ("dog",)
    assert division.list_notes(read.dataset) == (
        "The validation part of your split lacks 1 of 2 classes (dog): it was joined to the training part, and "
        "another one was drawn.",
    )


def test_a_class_without_validation_is_named(tmp_path: Path) -> None:
    root = make(tmp_path, cat=20, dog=20)
    path = _manifest(root, groups=5)
    text = path.read_text().replace("cat2", "cat0").replace("cat3", "cat0").replace("cat4", "cat1")
    path.write_text(text)
    read = Survey.read(path)
    division = Division.of_survey(read, 0)
    overview = Overview.of_split(read.dataset, division.split, division.grouping, division.list_notes(read.dataset))
    assert overview.to_json()["missing"] == {"train": [], "validation": ["cat"], "holdout": []}
    assert "1 class has no image for validation, and no recall there (cat)." in overview.lines


def test_classes_with_one_inferred_group_are_counted(tmp_path: Path) -> None:
    dataset = Survey.read(make(tmp_path, cat=12, dog=12)).dataset
    grouping = Grouping(tuple([0] * 12 + [1 + index // 2 for index in range(12)]), Source.APPEARANCE)
    parts = draw_split(dataset, 0, grouping=grouping)
    division = Division(parts, grouping, _units.number_units(dataset), (), ())
    assert division.list_notes(dataset) == (
        "Images come in 7 groups (similar light and background): whole groups are held out, and ranges count them."
        " In 1 class with too few groups, one is divided between two parts: figures there may be too high.",
    )


@pytest.mark.parametrize("groups", [0, 5])
def test_the_overview_has_the_images_of_each_class_in_each_part(tmp_path: Path, groups: int) -> None:
    read = Survey.read(_manifest(make(tmp_path, cat=20, dog=20), groups))
    division = Division.of_survey(read, 0)
    found = Overview.of_split(read.dataset, division.split, division.grouping, ()).to_json()
    assert found["images"] == {part: len(getattr(division.split, part)) for part in PARTS}
    assert found["images_per_class"][SplitPart.VALIDATION].keys() == {"cat", "dog"}  # type: ignore[index]
    assert sum(sum(each.values()) for each in found["images_per_class"].values()) == 40  # type: ignore[attr-defined]


def test_images_with_boxes_are_divided_and_their_boxes_counted(tmp_path: Path) -> None:
    read = BoxSurvey.read_images(write_table(tmp_path, photos(60, "cat", "dog")))
    division, boxes, notes = Division.of_boxes(read, 0)
    sizes = [len(part) for part in (division.split.train, division.split.validation, division.split.holdout)]
    assert [boxes[part] for part in PARTS] == [{"cat": size, "dog": size} for size in sizes]
    assert (sum(sizes), notes) == (60, ())


def test_a_part_that_lacks_a_class_of_boxes_is_told(tmp_path: Path) -> None:
    _, boxes, notes = Division.of_boxes(BoxSurvey.read_images(write_without_dogs(tmp_path)), 0)
    assert boxes[SplitPart.VALIDATION] == {"cat": 6, "dog": 0}
    assert notes == tuple(
        f"The {part} part has no box of dog: no average precision there." for part in ("validation", "holdout")
    )


def test_a_set_whose_class_is_on_too_few_images_is_refused_before_it_is_divided(tmp_path: Path) -> None:
    read = BoxSurvey.read_images(write_table(tmp_path, [*photos(40, "cat"), Photo("x", (("dog", 5, 5, 20, 20),))]))
    must_fail(UsageError, "fewer than 8 images with a box of 'dog'", Division.of_boxes, read, 0)
