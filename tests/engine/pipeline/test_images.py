from __future__ import annotations

from pathlib import Path

from advisor.datasets.dataset import Dataset, LabelledImage, fingerprint
from advisor.datasets.split import Split
from advisor.engine.pipeline.images import Images, Role

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
