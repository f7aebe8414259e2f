"""Images with masks are divided and checked."""

from pathlib import Path

import numpy as np
import pytest

from advisor.core import UsageError
from advisor.datasets import Mask, MaskSurvey
from advisor.engine import Images, Role, resolve
from advisor.engine._data_check import check_images
from advisor.engine._space.question_images import read_images
from advisor.reporting import render
from advisor.tasks.segmentation import SEGMENTATION
from advisor.tasks.segmentation._images import choose_mixed
from tests.builders import must_fail
from tests.tables import with_cases
from tests.tasks.segmentation.shapes import CLASSES, coco, folders, save, shapes

pytestmark = pytest.mark.integration


def divided(data: Path) -> Images:
    images = read_images(resolve({"task": SEGMENTATION.name, "data": str(data)}).question, lambda _: None)
    assert images is not None
    return images


def test_each_part_has_its_share_of_the_classes_and_its_masks(tmp_path: Path) -> None:
    images = divided(folders(tmp_path, 60))
    assert images.classes == CLASSES
    for role, least in ((Role.TRAIN, 12), (Role.VALIDATION, 3), (Role.HOLDOUT, 4)):
        part = images.part(role)
        assert [path.stem for path in part.paths] == [Path(mask.path).stem for mask in part.objects]
        shown = [[label for _, label in mask.classes] for mask in part.objects]
        assert min(np.bincount(np.concatenate(shown), minlength=3)) >= least - 1


def test_every_thirtieth_frame_of_a_film_is_its_group_whatever_is_in_it(tmp_path: Path) -> None:
    for film, colour in enumerate([(200, 90, 90), (90, 200, 90), (90, 90, 200), (180, 180, 60), (60, 180, 180)]):
        for frame in range(8):
            pixels, mask = shapes(8 * film + frame)
            lit = np.clip(pixels * 0.3 + np.array(colour) * 0.7, 0, 255).astype(np.uint8)
            name = f"film{film}_{100 + 30 * frame:05}"
            save(tmp_path / "images" / f"{name}.png", lit)
            save(tmp_path / "masks" / f"{name}.png", mask)
    images = divided(tmp_path)
    assert images.grouping.count == 5
    parts = [images.part(role) for role in (Role.TRAIN, Role.VALIDATION, Role.HOLDOUT)]
    films = [{path.stem[:5] for path in part.paths} for part in parts]
    assert sum(map(len, films)) == len(set.union(*films))


def test_another_mask_is_another_set(tmp_path: Path) -> None:
    root = folders(tmp_path, 60)
    first = divided(root)
    save(root / "masks" / "001.png", np.zeros_like(shapes(1)[1]))
    second = divided(root)
    assert first.dataset.fingerprint != second.dataset.fingerprint
    assert first.part(Role.ALL).fingerprint != second.part(Role.ALL).fingerprint


def test_a_copy_of_the_set_elsewhere_is_the_same_set(tmp_path: Path) -> None:
    first, second = (divided(folders(tmp_path / name, 60)) for name in ("one", "two"))
    assert first.part(Role.TRAIN).fingerprint == second.part(Role.TRAIN).fingerprint


def test_of_images_with_one_class_half_as_many_are_learnt_from_as_of_the_others() -> None:
    several, one = (Mask(str(number), (8, 8), "x", number) for number in (((0, 0), (1, 1)), ((0, 0),)))
    images = [(Path(str(n)), several if n < 10 else one) for n in range(100)]
    kept = choose_mixed(images, 0)
    assert (kept[:10], len(kept)) == (images[:10], 15)
    assert choose_mixed(images, 0) == kept != choose_mixed(images, 1)
    assert choose_mixed(images[10:], 0) == images[10:]


def test_a_check_names_classes_that_never_occur_rare_ones_and_empty_masks(tmp_path: Path) -> None:
    root = folders(tmp_path, 24, (*CLASSES, "ghost"))
    (root / "masks" / "001.png").unlink()
    checked = check_images(root, None, task=SEGMENTATION.name)
    said = {finding.kind.value: finding.message for finding in checked.findings}
    assert said["unreadable"] == "1 file cannot be used: no mask (1)"
    assert said["classes that never occur"] == "1 class is named and in no mask: ghost"
    assert said["rare classes"] == "2 classes are in fewer than 10 images: square (7), bar (8)"
    assert said["masks without an object"] == "8 masks have no object"
    assert checked.to_json()["images_per_class"] == {"square": 7, "bar": 8}
    assert checked.content.label(root / "images" / "000.jpg") == "nothing"
    assert checked.content.label(root / "images" / "002.jpg").startswith("bar ")
    assert checked.content.label(root / "images" / "001.jpg") == ""
    page = render(checked)
    assert page.count('class="layer"') >= 10
    assert "Check that each box or colour is on its object." in page


def test_near_copies_are_found_and_left_out_of_the_new_table(tmp_path: Path) -> None:
    root = folders(tmp_path / "set", 24)
    for folder, ending in (("images", "jpg"), ("masks", "png")):
        (root / folder / f"copy.{ending}").write_bytes((root / folder / f"001.{ending}").read_bytes())
    checked = check_images(root, None, task=SEGMENTATION.name)
    assert "exact duplicates" in {finding.kind.value for finding in checked.findings}
    table = tmp_path / "clean.csv"
    assert (checked.write_manifest(table), len(MaskSurvey.read_images(table).masks)) == (24, 24)


def test_masks_of_coco_are_not_written_as_a_table(tmp_path: Path) -> None:
    checked = check_images(coco(tmp_path / "set", 30), None, task=SEGMENTATION.name)
    must_fail(UsageError, "masks of COCO cannot be written as a table", checked.write_manifest, tmp_path / "clean.csv")


@with_cases
def test_what_the_task_does_not_have_is_refused(tmp_path: Path, written: dict[str, str], message: str) -> None:
    (tmp_path / "costs.csv").write_text("answer,a,b\na,0,1\nb,1,0\n")
    if "costs" in written:
        written = {"costs": str(tmp_path / "costs.csv")}
    with pytest.raises(UsageError, match=message):
        resolve({"task": SEGMENTATION.name, "data": str(folders(tmp_path / "set")), **written})
