from __future__ import annotations

from pathlib import Path

from advisor.datasets.dataset import Dataset, LabelledImage, fingerprint
from advisor.datasets.split import PARTS, Split
from advisor.engine.pipeline.images import Images, Role
from tests.engine.pipeline.boxed import CAT, DOG, boxed_images

CLASSES = ("a", "b")


def _images(groups: tuple[int, ...]) -> Images:
    files = tuple(LabelledImage(Path(f"{index}.jpg"), index % 2, str(index)) for index in range(8))
    dataset = Dataset(Path(), CLASSES, files, (), fingerprint(CLASSES, files))
    return Images(dataset, Split((0, 3, 5, 6), (1, 4), (2, 7), 0), groups=groups)


def test_each_part_has_the_groups_of_its_images() -> None:
    images = _images((0, 1, 2, 3, 3, 3, 4, 1))
    assert images.part(Role.TRAIN).groups == (0, 3, 3, 4)
    assert images.part(Role.LEARNT).groups == (0, 1, 3, 3, 3, 4)
    assert images.part(Role.TRAIN).between(1, 3).groups == (3, 3)


def test_groups_leave_the_fingerprint_of_a_part() -> None:
    one, other = (_images(groups).part(Role.TRAIN) for groups in ((), (0, 1, 2, 3, 3, 3, 4, 1)))
    assert one.groups == ()
    assert one.fingerprint == other.fingerprint


def test_each_part_has_the_objects_of_its_images() -> None:
    images = boxed_images()
    part = images.part(Role.VALIDATION)
    assert part.objects == ((CAT,), (CAT, DOG)) * 2
    assert part.between(1, 3).objects == ((CAT, DOG), (CAT,))
    assert images.part(Role.LEARNT).objects == part.objects * 2


def test_images_with_classes_have_no_objects() -> None:
    part = _images(()).part(Role.TRAIN)
    assert (part.objects, part.between(1, 3).objects) == ((), ())


def test_another_place_or_class_of_a_box_is_another_fingerprint_of_its_part_alone() -> None:
    objects = [(CAT,)] * 12
    found = []
    for box in (CAT, (0, 0.1, 0.1, 0.3, 0.31), (1, *CAT[1:])):
        images = boxed_images([(box,), *objects[1:]])
        found.append([images.part(role).fingerprint for role in (Role.TRAIN, Role.LEARNT, Role.VALIDATION)])
    train, learnt, validation = (set(each) for each in zip(*found, strict=True))
    assert (len(train), len(learnt), len(validation)) == (3, 3, 1)


def test_the_classes_are_those_of_the_boxes() -> None:
    assert boxed_images().classes == ("cat", "dog")
    assert _images(()).classes == CLASSES


def test_boxes_are_counted_by_class_and_part() -> None:
    images = boxed_images()
    assert images.boxes is not None
    assert images.boxes.counts == {"cat": 12, "dog": 6}
    assert images.boxes.among([0, 2, 3]) == {"cat": 3, "dog": 1}
    assert images.overview.boxes == {part: {"cat": 4, "dog": 2} for part in PARTS}
    assert _images(()).overview.boxes == {}
