"""Good images are learnt from, and faulty ones judge."""

import zipfile
from pathlib import Path

import pytest
from PIL import Image

from advisor.core import UsageError
from advisor.engine import Images, Role, resolve
from advisor.engine._data_check import check_images
from advisor.engine._space.question_images import read_images
from advisor.tasks.anomaly import ANOMALY
from advisor.tasks.anomaly._images import survey_faults
from tests.builders import must_fail
from tests.tables import with_cases
from tests.tasks.anomaly.parts import part, parts

pytestmark = pytest.mark.integration


def divided(data: Path) -> Images:
    images = read_images(resolve({"task": ANOMALY.name, "data": str(data)}).question, lambda _: None)
    assert images is not None
    return images


def test_only_good_images_are_learnt_from_and_faulty_ones_judge(tmp_path: Path) -> None:
    images = divided(parts(tmp_path))
    assert images.classes == ("anomaly",)
    assert images.dataset.classes == ("good", "spot")
    train, validation, holdout = (images.part(role) for role in (Role.TRAIN, Role.VALIDATION, Role.HOLDOUT))
    assert set(train.labels) == {0}
    assert set(validation.labels) == set(holdout.labels) == {0, 1}
    assert len({*train.paths, *validation.paths, *holdout.paths}) == 80
    for own in (validation, holdout):
        assert [bool(mask) for mask in own.objects] == [label == 1 for label in own.labels]


def test_good_images_may_have_other_names_or_no_folder(tmp_path: Path) -> None:
    first = parts(tmp_path / "one", masks=False)
    (first / "good").rename(first / "OK")
    assert survey_faults(first)[0].dataset.classes == ("OK", "spot")
    alone = parts(tmp_path / "two", faulty=0)
    assert survey_faults(alone / "good")[0].dataset.classes == ("good",)


def test_images_and_masks_may_be_in_folders_of_their_own(tmp_path: Path) -> None:
    root = parts(tmp_path)
    (root / "images").mkdir()
    for name in ("good", "spot"):
        (root / name).rename(root / "images" / name)
    (root / "ground_truth").rename(root / "masks")
    read, masks = survey_faults(root)
    assert (len(read.dataset.images), sum(map(bool, masks))) == (80, 20)


def test_a_table_names_kinds(tmp_path: Path) -> None:
    root = parts(tmp_path, masks=False)
    rows = [f"{path.relative_to(root)},{path.parent.name}" for path in sorted(root.rglob("*.png"))]
    (root / "table.csv").write_text("path,label\n" + "\n".join(rows))
    assert survey_faults(root / "table.csv")[0].dataset.counts == (60, 20)


def test_images_inside_a_zip_are_read_without_their_masks(tmp_path: Path) -> None:
    root = parts(tmp_path / "set")
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as file:
        for path in sorted(root.rglob("*.png")):
            file.write(path, path.relative_to(root).as_posix())
    read, masks = survey_faults(tmp_path / "set.zip")
    assert (read.dataset.classes, read.dataset.counts) == (("good", "spot"), (60, 20))
    assert not any(masks)


def test_without_faulty_images_it_is_said_how_networks_are_judged(tmp_path: Path) -> None:
    images = divided(parts(tmp_path, faulty=0) / "good")
    assert images.notes[-1].startswith("There are no faulty images: networks are judged by faults that are drawn")


def test_a_faulty_copy_of_what_is_learnt_judges_nothing(tmp_path: Path) -> None:
    root = parts(tmp_path, masks=False)
    train = divided(root).part(Role.TRAIN).paths
    for place, path in enumerate(train[:20]):
        (root / "spot" / f"copy{place}.png").write_bytes(path.read_bytes())
    images = divided(root)
    learnt = {images.groups[index] for index in images.part(Role.TRAIN).indices}
    for role in (Role.VALIDATION, Role.HOLDOUT):
        assert not learnt & {images.groups[index] for index in images.part(role).indices}
    assert any("as near copies are learnt from" in note for note in images.notes)


@with_cases
def test_it_must_be_clear_which_images_are_good(tmp_path: Path, rename: str, message: str) -> None:
    root = parts(tmp_path, masks=False)
    if rename == "plain":
        (root / "good").rename(root / rename)
    else:
        (root / rename).mkdir()
        Image.fromarray(part(1)[0]).save(root / rename / "1.png")
    refused = must_fail(UsageError, message, survey_faults, root)
    assert "put good images into DIR/good" in (refused.hint or "")


def test_equal_good_images_count_once_and_are_too_few(tmp_path: Path) -> None:
    root = parts(tmp_path, masks=False)
    for path in (root / "good").iterdir():
        path.write_bytes((root / "good" / "000.png").read_bytes())
    must_fail(UsageError, r"--data: ", divided, root)


def test_too_few_good_images_are_refused_with_their_number(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"good images? in \d+ groups? of near copies to learn from"):
        divided(parts(tmp_path, good=20, masks=False))


def test_a_path_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    must_fail(UsageError, "holds no images", survey_faults, tmp_path / "empty")
    must_fail(UsageError, "does not exist", survey_faults, tmp_path / "missing")


def test_a_faulty_image_among_the_good_ones_is_found_and_named(tmp_path: Path) -> None:
    root = parts(tmp_path, masks=False)
    pixels = part(5)[0].copy()
    pixels[8:40, 8:40] = 255
    Image.fromarray(pixels).save(root / "good" / "odd.png")
    checked = check_images(root, None, task=ANOMALY.name)
    (odd,) = [each for each in checked.findings if each.kind.value == "good images unlike the others"]
    assert [group[0].name for group in odd.groups] == ["odd.png"]
    assert checked.write_manifest(tmp_path / "clean.csv") < 81
    assert checked.content.summary == "81 images in 2 classes"


def test_images_of_one_light_have_no_odd_one(tmp_path: Path) -> None:
    checked = check_images(parts(tmp_path, masks=False), None, task=ANOMALY.name)
    assert "good images unlike the others" not in {each.kind.value for each in checked.findings}
