from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core.errors import UsageError
from advisor.datasets.grouping import PAUSE_S, by_camera, find_groups
from advisor.datasets.image_stats import Shot
from advisor.datasets.survey import survey
from advisor.datasets.whole_groups import Grouping, Source
from tests.datasets.folders import image, make

START = datetime(2026, 5, 1, 10, 0)


def _scene(place: int, view: int) -> Image.Image:
    """A view of a place: views of one place resemble each other, and are no copies."""
    base = np.asarray(image(place, (64, 64)), np.float64)
    return Image.fromarray(np.clip(base + np.random.default_rng(view).normal(0, 40, base.shape), 0, 255).astype("u1"))


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
    make(tmp_path, cat=4, dog=4)
    rows = [
        (f"{name}/{number:03d}.jpg", name)
        for name, first in (("cat", 0), ("dog", 100))
        for number in range(first, first + 4)
    ]
    with (tmp_path / "m.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("path", "label", "group"), *((*row, ("x", "x", "", "y")[i % 4]) for i, row in enumerate(rows))]
        )
    grouping = find_groups(survey(tmp_path / "m.csv"))
    assert grouping.source is Source.MANIFEST
    assert grouping.of == (0, 0, 1, 2, 0, 0, 3, 2)


def test_one_group_of_everything_is_refused(tmp_path: Path) -> None:
    make(tmp_path, cat=4, dog=4)
    with (tmp_path / "m.csv").open("w") as file:
        file.write(
            "path,label,group\n"
            + "".join(f"{path.relative_to(tmp_path)},{path.parent.name},day\n" for path in tmp_path.glob("*/*.jpg"))
        )
    with pytest.raises(UsageError, match="all 8 images are in one group, 'day'"):
        find_groups(survey(tmp_path / "m.csv"))


def test_a_pause_and_another_camera_start_a_group(tmp_path: Path) -> None:
    number = 0
    for camera in ("one", "two"):
        for visit in range(2):
            for shot in range(4):
                taken = START + timedelta(seconds=2 * visit * PAUSE_S + 20 * shot)
                _photo(
                    tmp_path / ("cat", "dog")[shot % 2] / f"{camera}{visit}{shot}x.jpg", image(number), taken, camera
                )
                number += 1
    read = survey(tmp_path)
    grouping = find_groups(read)
    names = [image.path.stem for image in read.dataset.images]
    assert grouping.source is Source.CAMERA
    assert {frozenset(name[:4] for name in group) for group in _groups(grouping, names)} == {
        frozenset({f"{camera}{visit}"}) for camera in ("one", "two") for visit in range(2)
    }


def test_times_without_a_camera_suffice() -> None:
    shots = [Shot(0.0), Shot(60.0), Shot(10 * PAUSE_S), Shot(10 * PAUSE_S + 60)]
    assert by_camera(shots) == (0, 0, 1, 1)


def test_few_times_say_nothing() -> None:
    assert by_camera([Shot(0.0), Shot(60.0), Shot(), Shot()]) == ()


def test_an_image_without_a_time_is_a_group() -> None:
    of = by_camera([Shot(0.0), Shot(60.0), Shot(), Shot(20.0), Shot(30.0), Shot(40.0)])
    assert of[2] not in {of[index] for index in (0, 1, 3, 4, 5)}


def test_one_burst_of_everything_is_no_group(tmp_path: Path) -> None:
    for number in range(12):
        _photo(tmp_path / ("cat", "dog")[number % 2] / f"{number}.jpg", image(number), START, "one")
    assert find_groups(survey(tmp_path)).source is Source.NONE


def test_damaged_exif_says_nothing(tmp_path: Path) -> None:
    for number in range(8):
        path = tmp_path / ("cat", "dog")[number % 2] / f"{number}.jpg"
        _photo(path, image(number), START + timedelta(days=number // 4), "camera")
        data = path.read_bytes()
        start = data.index(b"Exif\0\0") + 6
        path.write_bytes(data[: start + 8] + b"\xff" * 20 + data[start + 28 :])
    read = survey(tmp_path)
    assert len(read.dataset.images) == 8
    assert all(shot.taken_s is None for shot in read.shots)


@pytest.mark.parametrize("written", ["0000:00:00 00:00:00", "yesterday", ""])
def test_an_impossible_time_says_nothing(tmp_path: Path, written: str) -> None:
    for name in ("cat", "dog"):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = written
        (tmp_path / name).mkdir()
        image(len(name) + ord(name[0])).save(tmp_path / name / "1.jpg", exif=exif)
    assert {shot.taken_s for shot in survey(tmp_path).shots} == {None}


def test_a_jump_in_appearance_starts_a_group_in_a_sequence(tmp_path: Path) -> None:
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for number in range(24):
            _scene(10 * label + number // 6, 100 * label + number).save(tmp_path / name / f"IMG_{number}.png")
    read = survey(tmp_path)
    grouping = find_groups(read)
    names = [f"{image.path.parent.name}{int(image.path.stem[4:]) // 6}" for image in read.dataset.images]
    assert grouping.source is Source.SEQUENCE
    assert _groups(grouping, names) == {frozenset({f"{name}{visit}"}) for name in ("cat", "dog") for visit in range(4)}
    assert grouping.largest == 6


def test_a_gap_in_the_numbers_starts_a_group(tmp_path: Path) -> None:
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for number in range(12):
            place = 10 * label + 5 * (number // 6)
            _scene(place if number < 9 else 10 * label + 5, 100 * label + number).save(
                tmp_path / name / f"{number + (500 if number >= 9 else 0)}.png"
            )
    assert find_groups(survey(tmp_path)).count == 6


def test_numbers_in_random_order_say_nothing(tmp_path: Path) -> None:
    make(tmp_path, cat=30, dog=30)
    assert find_groups(survey(tmp_path)).source is Source.NONE


def test_names_without_numbers_say_nothing(tmp_path: Path) -> None:
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for number in range(12):
            _scene(10 * label + number // 6, 100 * label + number).save(
                tmp_path / name / f"{'abcdefghijkl'[number]}.png"
            )
    assert find_groups(survey(tmp_path)).source is not Source.SEQUENCE


def test_groups_lie_inside_one_part_of_the_users_own_split(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            for number in range(6):
                path = tmp_path / part / name / f"{number}.jpg"
                _photo(
                    path,
                    image(100 * len(part) + 10 * len(name) + ord(name[0]) + number),
                    START + timedelta(days=number // 3),
                )
    read = survey(tmp_path)
    grouping = find_groups(read)
    assert grouping.source is Source.CAMERA
    assert all(len({read.dataset.images[index].part for index in group}) == 1 for group in grouping.members)
