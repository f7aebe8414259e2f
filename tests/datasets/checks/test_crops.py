import os
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from advisor.core import UsageError
from advisor.datasets import (
    BoxSurvey,
    Dataset,
    Finding,
    Kind,
    LabelledImage,
    Pair,
    Survey,
    _cropped_copies as crops,
    check_boxes,
    find_cropped_copies,
    require_writable,
    write_boxes,
    write_manifest,
)
from advisor.datasets._checks import find_leaks, list_linked_groups, report_repeats
from advisor.datasets._cropped_copies import SIDE, find_candidates, match_crop
from tests.builders import must_fail
from tests.datasets.boxes.writers import Photo, photos, save, write, write_table, xml
from tests.datasets.folders import fill, make


def _grey(image: Image.Image) -> np.ndarray:
    soft = (
        image.convert("L").resize((2 * SIDE, 2 * SIDE), Image.Resampling.BILINEAR).filter(ImageFilter.GaussianBlur(1))
    )
    return np.asarray(soft.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32)


def _cut(image: Image.Image, left: float, top: float, kept: float) -> Image.Image:
    width, height = image.size
    return image.crop((int(left * width), int(top * height), int((left + kept) * width), int((top + kept) * height)))


@pytest.mark.parametrize(("left", "top", "kept"), [(0.0, 0.0, 0.85), (0.1, 0.02, 0.88), (0.0, 0.0, 1.0)])
def test_a_crop_matches_in_any_order(photographs: list[Image.Image], left: float, top: float, kept: float) -> None:
    for photograph in photographs:
        whole, part = _grey(photograph), _grey(ImageEnhance.Brightness(_cut(photograph, left, top, kept)).enhance(0.8))
        assert match_crop(whole, part) > crops.MIN_MATCH
        assert match_crop(part, whole) == match_crop(whole, part)


def test_different_photographs_and_flat_images_do_not_match(photographs: list[Image.Image]) -> None:
    flat = np.full((SIDE, SIDE), 90, np.float32)
    assert match_crop(flat, flat) == 0.0
    values = [match_crop(_grey(one), _grey(two)) for one in photographs for two in photographs if one is not two]
    assert max(values) < 0.8


def test_candidates_are_near_in_features_and_unrelated_ones_are_not() -> None:
    draw = np.random.default_rng(0)
    features = draw.standard_normal((60, 64)).astype(np.float32)
    features[31] = features[7] + 0.3 * draw.standard_normal(64)
    assert find_candidates(features) == [(7, 31)]
    assert find_candidates(features[:0]) == find_candidates(features[:1]) == []


def test_a_large_set_in_blocks_gives_the_same_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    features = draw.standard_normal((90, 1500)).astype(np.float32)
    features[40:50] = features[:10] + 0.2 * draw.standard_normal((10, 1500))
    whole = find_candidates(features)
    monkeypatch.setattr(crops, "_FEATURE_ROWS", 7)
    monkeypatch.setattr(crops, "LARGE", 50)
    assert find_candidates(features) == whole == [(index, index + 40) for index in range(10)]


def test_what_only_looks_alike_to_the_network_is_left_out(tmp_path: Path, photographs: list[Image.Image]) -> None:
    images = [photographs[0], _cut(photographs[0], 0.0, 0.0, 0.9), photographs[1], photographs[2]]
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for image, path in zip(images, paths, strict=True):
        image.save(path)
    draw = np.random.default_rng(2)
    features = draw.standard_normal((2, 32)).astype(np.float32).repeat(2, axis=0)  # 0 like 1, 2 like 3
    (pair,) = find_cropped_copies(features, paths)
    assert (pair.first, pair.second) == (0, 1)


def test_a_image_that_went_is_passed_over(tmp_path: Path, photographs: list[Image.Image]) -> None:
    photographs[0].save(tmp_path / "a.png")
    features = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    assert find_cropped_copies(features, [tmp_path / "a.png", tmp_path / "gone.png", tmp_path / "a.png"]) == ()


def test_what_is_written_is_read_back_without_what_was_left_out(tmp_path: Path) -> None:
    make(tmp_path / "data" / "test", cat=2, dog=2)
    make(tmp_path / "data" / "train", cat=7, dog=7)
    dataset = Survey.read(tmp_path / "data").dataset
    (tmp_path / "lists").mkdir()
    out = {dataset.images[3].path, dataset.images[12].path}
    assert write_manifest(tmp_path / "lists" / "fixed.csv", dataset, out) == 16
    again = Survey.read(tmp_path / "lists" / "fixed.csv").dataset
    assert [image.sha256 for image in again.images] == [p.sha256 for p in dataset.images if p.path not in out]
    assert again.labels == tuple(p.label for p in dataset.images if p.path not in out)
    assert again.own_parts == tuple(p.part for p in dataset.images if p.path not in out)


def test_odd_names_survive(tmp_path: Path) -> None:
    root = make(tmp_path / "data", **{'a "b", c': 8, "=1+1": 8})
    fill(root / 'a "b", c' / "x,y\nz", 1)
    dataset = Survey.read(root).dataset
    write_manifest(tmp_path / "fixed.csv", dataset, set())
    assert Survey.read(tmp_path / "fixed.csv").dataset.fingerprint == dataset.fingerprint


@pytest.mark.parametrize(("name", "message"), [("a.xlsx", "CSV"), ("there.csv", "exists"), ("gone/a.csv", "folder")])
def test_where_it_cannot_go_is_said_before_anything_is_done(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.csv").touch()
    must_fail(UsageError, message, require_writable, tmp_path / name)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    dataset = Survey.read(make(tmp_path / "data", cat=40, dog=40)).dataset
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        must_fail(UsageError, "cannot be written", write_manifest, tmp_path / "fixed.csv", dataset, set())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_boxes_are_written_without_the_suspects_and_read_back(tmp_path: Path) -> None:
    repeated = (("cat", 5.25, 5, 40, 40), ("cat", 5.25, 5, 40, 40), ("dog", 10, 10, 11, 30), ("dog", 50, 5, 90, 20))
    made = [*photos(4, "cat"), Photo("a", repeated, "test"), Photo("empty", (), "train")]
    read = BoxSurvey.read_images(write_table(tmp_path, made))
    assert write_boxes(tmp_path / "fixed.csv", read, check_boxes(read, ())) == 6
    again = BoxSurvey.read_images(tmp_path / "fixed.csv")
    kept = {image.path.stem: boxes for image, boxes in zip(again.images.dataset.images, again.boxes, strict=True)}
    assert [(box.label, *box.edges) for box in kept["a"]] == [("cat", 5.25, 5, 40, 40), ("dog", 50, 5, 64, 20)]
    assert kept["empty"] == ()
    assert {image.part for image in again.images.dataset.images} == {"", "holdout", "train"}
    assert not {Kind.REPEATED_BOXES, Kind.TINY, Kind.OUTSIDE} & {finding.kind for finding in check_boxes(again, ())}


def test_left_out_images_are_not_in_the_table(tmp_path: Path) -> None:
    table = write_table(tmp_path, photos(3, "cat"))
    (tmp_path / "002.jpg").write_bytes((tmp_path / "001.jpg").read_bytes())
    read = BoxSurvey.read_images(table)
    findings = check_boxes(read, Pair.find_alike(read.images.thumbnails))
    assert write_boxes(tmp_path / "fixed.csv", read, findings) == 2


def test_turned_boxes_are_written_upright(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg", orientation=6)
    write(tmp_path / "a.xml", xml(Photo("a", (("cat", 40, 5, 60, 40),))))
    read = BoxSurvey.read_images(tmp_path)
    (tmp_path / "a.xml").unlink()
    write_boxes(tmp_path / "fixed.csv", read, ())
    assert BoxSurvey.read_images(tmp_path / "fixed.csv").boxes[0][0].edges == read.boxes[0][0].edges == (8, 40, 43, 60)


def _dataset(*rows: tuple[int, str, str, str]) -> Dataset:
    """A dataset from (label, content, part, group) rows."""
    images = tuple(
        LabelledImage(Path(f"{number}.jpg"), label, content, part, group, (100 + number, 0))
        for number, (label, content, part, group) in enumerate(rows)
    )
    return Dataset(Path(), ("cat", "dog"), images, (), "")


def _found(dataset: Dataset, *links: tuple[int, int]) -> dict[Kind, Finding]:
    return {finding.kind: finding for finding in report_repeats(dataset, [Pair(*link, 1.0) for link in links])}


def _names(paths: tuple[Path, ...]) -> list[str]:
    return [path.stem for path in paths]


def test_equal_bytes_are_exact_and_an_image_in_two_classes_is_left_out_altogether() -> None:
    found = _found(_dataset(*((0, content, "", "") for content in "aabc")), (0, 1), (2, 3))
    assert _names(found[Kind.EXACT_DUPLICATES].leave_out) == ["0"]
    assert _names(found[Kind.NEAR_DUPLICATES].leave_out) == ["2"]
    found = _found(_dataset((0, "a", "", ""), (1, "a", "", ""), (1, "b", "", "")), (0, 1), (1, 2))
    assert set(found) == {Kind.SAME_IMAGE_TWO_CLASSES}
    assert _names(found[Kind.SAME_IMAGE_TWO_CLASSES].leave_out) == ["0", "1", "2"]
    assert found[Kind.SAME_IMAGE_TWO_CLASSES].notes == ("cat and dog",)


def test_of_a_leak_the_copy_in_the_test_part_stays_and_a_group_in_two_parts_is_one() -> None:
    dataset = _dataset(
        (0, "a", "holdout", ""), (0, "b", "train", ""), (0, "c", "validation", ""), (0, "d", "train", "")
    )
    leak = _found(dataset, (0, 1), (2, 3))[Kind.LEAK]
    assert _names(leak.leave_out) == ["1", "3"]
    assert leak.notes == ("holdout and train", "validation and train")
    dataset = _dataset((0, "a", "train", "film"), (0, "b", "holdout", "film"), (0, "c", "train", "other"))
    leak = _found(dataset)[Kind.LEAK]
    assert "1 group lies" in leak.message
    assert leak.notes == ("group 'film': train and holdout",)
    assert leak.leave_out == ()
    dataset = _dataset((0, "a", "train", ""), (0, "a", "", ""), (0, "b", "holdout", ""))
    assert find_leaks(dataset, [(0, 1)]) == ()
    assert find_leaks(dataset, [(0, 1, 2)]) == ((0, 1, 2),)


def test_what_belongs_together_is_alike_or_of_one_group() -> None:
    dataset = _dataset((0, "a", "", "x"), (0, "b", "", ""), (0, "c", "", "x"), (1, "d", "", "y"), (1, "e", "", ""))
    assert list_linked_groups(dataset, [Pair(1, 4, 1.0)]) == ((1, 4), (0, 2))


def test_a_file_that_no_manifest_can_name_is_named(tmp_path: Path) -> None:
    first = next(make(tmp_path / "data", cat=4, dog=4).rglob("*.*"))
    dataset = Survey.read(tmp_path / "data").dataset
    odd = first.rename(Path(os.fsdecode(os.fsencode(first.parent) + b"/odd-\xff" + first.suffix.encode())))
    images = tuple(replace(image, path=odd) if image.path == first else image for image in dataset.images)
    with pytest.raises(UsageError, match=r"not UTF-8: '.*odd-.udcff[.]"):
        write_manifest(tmp_path / "fixed.csv", replace(dataset, images=images), set())
    assert {path.name for path in tmp_path.iterdir()} == {"data"}
