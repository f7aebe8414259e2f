from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageFilter
from skimage import data as skimage_data

from advisor.datasets.checks.check import check
from advisor.datasets.checks.findings import Finding, Kind
from advisor.datasets.image_stats import measure
from advisor.datasets.survey import survey
from tests.datasets.folders import fill, image, make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "data", cat=60, dog=70)


def _findings(root: Path, kind: Kind) -> list[Finding]:
    return [finding for finding in check(survey(root)) if finding.kind is kind]


def _names(finding: Finding) -> list[set[str]]:
    return [{path.name for path in group} for group in finding.groups]


def test_a_clean_set_has_no_duplicates_and_no_class_findings(root: Path) -> None:
    kinds = {finding.kind for finding in check(survey(root))}
    assert kinds <= {Kind.SIZE, Kind.CAPTURE}


def test_unreadable_files_are_listed_with_reasons(root: Path) -> None:
    (root / "cat" / "empty.jpg").touch()
    (finding,) = _findings(root, Kind.UNREADABLE)
    assert "the file is empty (1)" in finding.message
    assert _names(finding) == [{"empty.jpg"}]


def test_equal_files_are_grouped(root: Path) -> None:
    shutil.copy(root / "cat" / "000.jpg", root / "cat" / "copy.jpg")
    shutil.copy(root / "cat" / "000.jpg", root / "cat" / "again.jpg")
    (finding,) = _findings(root, Kind.EXACT_DUPLICATES)
    assert _names(finding) == [{"000.jpg", "copy.jpg", "again.jpg"}]
    assert _findings(root, Kind.NEAR_DUPLICATES) == []


def test_near_copies_are_grouped(root: Path) -> None:
    with Image.open(root / "cat" / "000.jpg") as photograph:
        photograph.resize((90, 70)).save(root / "cat" / "large.jpg", quality=60)
    (finding,) = _findings(root, Kind.NEAR_DUPLICATES)
    assert _names(finding) == [{"000.jpg", "large.jpg"}]


def test_an_image_in_two_classes_is_reported_apart(root: Path) -> None:
    shutil.copy(root / "cat" / "000.jpg", root / "dog" / "stray.jpg")
    (finding,) = _findings(root, Kind.SAME_IMAGE_TWO_CLASSES)
    assert _names(finding) == [{"000.jpg", "stray.jpg"}]
    assert _findings(root, Kind.EXACT_DUPLICATES) == []


def test_small_and_unequal_classes_are_named(root: Path) -> None:
    fill(root / "owl", 9, first=900)
    assert "'owl' (9)" in _findings(root, Kind.SMALL_CLASS)[0].message
    assert "'dog' has 7.8 times as many" in _findings(root, Kind.IMBALANCE)[0].message


def test_odd_sizes_are_listed(root: Path) -> None:
    image(77, (400, 100)).save(root / "cat" / "panorama.jpg")
    long = next(finding for finding in _findings(root, Kind.SIZE) if "as long" in finding.message)
    assert _names(long) == [{"panorama.jpg"}]


@pytest.mark.parametrize(
    ("name", "message"),
    [("dark", "very dark"), ("bright", "very bright"), ("poor", "JPEG quality"), ("soft", "blurred")],
)
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


def test_blur_lowers_sharpness_and_darkness_does_not(tmp_path: Path) -> None:
    photograph = Image.fromarray(skimage_data.chelsea())
    photograph.save(tmp_path / "plain.png")
    photograph.filter(ImageFilter.GaussianBlur(4)).save(tmp_path / "blurred.png")
    photograph.point(lambda value: value // 3).save(tmp_path / "dark.png")
    files = (tmp_path / f"{name}.png" for name in ("plain", "blurred", "dark"))
    plain, blurred, dark = (measure(file.read_bytes()).stats for file in files)
    assert blurred.sharpness < 0.4 * plain.sharpness
    assert dark.sharpness == pytest.approx(plain.sharpness, rel=0.2)


@pytest.mark.parametrize("quality", [20, 50, 75, 95])
def test_jpeg_quality_is_read_from_the_file(tmp_path: Path, quality: int) -> None:
    image(1).save(tmp_path / "a.jpg", quality=quality)
    assert measure((tmp_path / "a.jpg").read_bytes()).stats.jpeg_quality == pytest.approx(quality, abs=1)


def test_other_formats_have_no_jpeg_quality(tmp_path: Path) -> None:
    image(1).save(tmp_path / "a.png")
    assert measure((tmp_path / "a.png").read_bytes()).stats.jpeg_quality == 0


@pytest.mark.integration
def test_trashnet_has_images_in_two_classes(trashnet: Path) -> None:
    (finding,) = _findings(trashnet, Kind.SAME_IMAGE_TWO_CLASSES)
    assert {"glass176.jpg", "plastic152.jpg"} in _names(finding)
