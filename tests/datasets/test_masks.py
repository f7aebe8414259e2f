"""Masks are found and read in every layout, and what cannot be used is named."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from advisor.core import UsageError
from advisor.datasets import IGNORED_LABEL, MaskSurvey
from tests.builders import must_fail
from tests.tables import with_cases
from tests.tasks.segmentation.shapes import CLASSES, coco, folders, save, shapes


def truth(read: MaskSurvey) -> dict[str, np.ndarray]:
    """Return the classes of the pixels of each image by its stem."""
    return {image.path.stem: mask.labels() for image, mask in zip(read.images.dataset.images, read.masks, strict=True)}


def reasons(root: Path) -> dict[str, str]:
    """Return why images were left out by the name of the file."""
    return {row.path.name: row.reason for row in MaskSurvey.read_images(root).images.dataset.rejected}


def test_masks_beside_images_have_the_classes_of_classes_txt(tmp_path: Path) -> None:
    read = MaskSurvey.read_images(folders(tmp_path))
    assert read.classes == CLASSES
    found = truth(read)
    assert len(found) == 12
    for number in range(12):
        np.testing.assert_array_equal(found[f"{number:03}"], shapes(number)[1])
    assert read.pixels.sum(axis=0).tolist() == [
        int(sum((shapes(n)[1] == k).sum() for n in range(12))) for k in range(3)
    ]


def test_without_names_classes_have_their_values(tmp_path: Path) -> None:
    assert MaskSurvey.read_images(folders(tmp_path, names=())).classes == ("background", "class 1", "class 2")


def test_an_image_is_labelled_with_its_rarest_class(tmp_path: Path) -> None:
    read = MaskSurvey.read_images(folders(tmp_path))
    assert [image.label for image in read.images.dataset.images] == [0, 1, 2] * 4


def test_folders_of_a_split_are_its_parts(tmp_path: Path) -> None:
    for part in ("train", "val", "test"):
        folders(tmp_path / part, 3, ())
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES))
    read = MaskSurvey.read_images(tmp_path)
    assert read.classes == CLASSES
    assert [image.part for image in read.images.dataset.images] == [
        part for part in ("holdout", "train", "validation") for _ in range(3)
    ]


def test_parts_may_be_inside_images_and_masks(tmp_path: Path) -> None:
    for number in range(6):
        pixels, mask = shapes(number)
        part = "train" if number < 4 else "test"
        save(tmp_path / "images" / part / f"{number}.jpg", pixels)
        save(tmp_path / "masks" / part / f"{number}_mask.png", mask)
    read = MaskSurvey.read_images(tmp_path)
    assert len(read.masks) == 6
    assert {image.part for image in read.images.dataset.images} == {"train", "holdout"}


def test_masks_may_lie_beside_their_images(tmp_path: Path) -> None:
    for number in range(6):
        pixels, mask = shapes(number)
        save(tmp_path / f"{number}.jpg", pixels)
        save(tmp_path / f"{number}.png", mask)
    assert len(MaskSurvey.read_images(tmp_path).masks) == 6


def test_folders_of_classes_with_binary_masks_name_the_class(tmp_path: Path) -> None:
    for number in range(9):
        pixels, mask = shapes(number)
        name = ("free", "square", "bar")[number % 3]
        save(tmp_path / "images" / name / f"{number}.jpg", pixels)
        if mask.any():
            save(tmp_path / "masks" / name / f"{number}.png", np.where(mask, 255, 0).astype(np.uint8))
    read = MaskSurvey.read_images(tmp_path)
    assert read.classes == ("background", "bar", "square")
    assert not truth(read)["0"].any()
    assert (truth(read)["1"] == 2).sum() == 256


def test_255_is_ignored_where_masks_have_other_values_too(tmp_path: Path) -> None:
    root = folders(tmp_path)
    mask = shapes(1)[1].copy()
    mask[:4] = IGNORED_LABEL
    save(root / "masks" / "001.png", mask)
    found = truth(MaskSurvey.read_images(root))["001"]
    assert (found[:4] == IGNORED_LABEL).all()


def test_colours_are_classes_of_a_labelmap(tmp_path: Path) -> None:
    colours = np.array([(0, 0, 0), (250, 0, 0), (0, 250, 0)], np.uint8)
    for number in range(6):
        pixels, mask = shapes(number)
        save(tmp_path / "images" / f"{number}.jpg", pixels)
        save(tmp_path / "masks" / f"{number}.png", colours[mask])
    (tmp_path / "labelmap.txt").write_text("# label:color\nnothing:0,0,0::\nred:250,0,0::\ngreen:0,250,0::\n")
    read = MaskSurvey.read_images(tmp_path)
    assert read.classes == ("nothing", "green", "red")
    assert (truth(read)["1"] == 2).sum() == 256
    (tmp_path / "labelmap.txt").write_text("red 250\n")
    must_fail(UsageError, "has the line 'red 250'", MaskSurvey.read_images, tmp_path)


def test_a_table_names_images_and_masks(tmp_path: Path) -> None:
    root = folders(tmp_path / "set", 6)
    rows = [f"images/{n:03}.jpg,masks/{n:03}.png,{'test' if n > 3 else 'train'}" for n in range(6)]
    table = root / "table.csv"
    table.write_text("image,mask,split\n" + "\n".join(rows))
    read = MaskSurvey.read_images(table)
    assert (read.classes, len(read.masks)) == (CLASSES, 6)
    assert [image.part for image in read.images.dataset.images] == ["train"] * 4 + ["holdout"] * 2


def test_polygons_and_run_lengths_of_coco_are_drawn(tmp_path: Path) -> None:
    read = MaskSurvey.read_images(coco(tmp_path))
    assert read.classes == CLASSES
    for number in range(6):
        np.testing.assert_array_equal(truth(read)[f"{number:03}"], shapes(number)[1])


def test_polygons_outside_the_image_are_cut_and_named(tmp_path: Path) -> None:
    read = MaskSurvey.read_images(coco(tmp_path, shift=30.0))
    assert {path.stem for path in read.outside} <= {"001", "004"}
    assert read.outside


def test_the_mask_of_an_image_that_is_stored_rotated_may_be_stored_so_too(tmp_path: Path) -> None:
    root = folders(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels, mask = shapes(1)
    save(root / "images" / "001.jpg", pixels, exif=exif)
    found = truth(MaskSurvey.read_images(root))["001"]
    np.testing.assert_array_equal(found, np.rot90(mask, -1))


@with_cases
def test_a_mask_that_cannot_be_used_is_named_with_its_image(
    tmp_path: Path, shape: list[int], value: int, kind: str, why: str
) -> None:
    root = folders(tmp_path)
    save(root / "masks" / "001.png", np.full(shape, value, kind))
    assert why in reasons(root)["001.jpg"]


def test_a_mask_of_16_bits_with_small_values_is_read(tmp_path: Path) -> None:
    root = folders(tmp_path)
    save(root / "masks" / "001.png", shapes(1)[1].astype(np.uint16))
    np.testing.assert_array_equal(truth(MaskSurvey.read_images(root))["001"], shapes(1)[1])


def test_a_jpeg_mask_is_refused(tmp_path: Path) -> None:
    root = folders(tmp_path)
    (root / "masks" / "001.png").unlink()
    save(root / "masks" / "001.jpg", shapes(1)[1])
    assert "a JPEG file changes the values of a mask; save it as PNG" in reasons(root)["001.jpg"]


def test_an_image_without_a_mask_and_a_mask_without_an_image_are_named(tmp_path: Path) -> None:
    root = folders(tmp_path)
    (root / "masks" / "001.png").unlink()
    (root / "images" / "002.jpg").unlink()
    found = reasons(root)
    assert found == {"001.jpg": "no mask", "002.png": "a mask without an image of its name"}


def test_masks_of_one_class_only_are_refused(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / "images" / f"{number}.jpg", shapes(number)[0])
        save(tmp_path / "masks" / f"{number}.png", np.zeros((48, 64), np.uint8))
    must_fail(UsageError, "have one class only, 'background'", MaskSurvey.read_images, tmp_path)


@with_cases
def test_a_path_without_masks_is_refused_with_the_layout(tmp_path: Path, folder: str, message: str) -> None:
    refused = must_fail(UsageError, message, MaskSurvey.read_images, folders(tmp_path) / folder)
    assert "put photographs into DIR/images and masks of equal names into DIR/masks" in (refused.hint or "")


def test_a_coco_file_without_segmentations_or_with_a_wrong_one_is_named(tmp_path: Path) -> None:
    root = coco(tmp_path)
    file = root / "instances.json"
    document = json.loads(file.read_text())
    document["annotations"][0]["segmentation"] = [["a", 1]]
    file.write_text(json.dumps(document))
    assert reasons(root)["001.jpg"] == "its polygons or run lengths cannot be drawn"
    document["annotations"] = []
    file.write_text(json.dumps(document))
    must_fail(UsageError, "has no annotation with a segmentation", MaskSurvey.read_images, root)
