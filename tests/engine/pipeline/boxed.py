"""Made-up images of two classes, or with boxes of them, and what a detector finds in them; no image file exists."""

from collections.abc import Collection, Sequence
from pathlib import Path

from advisor.datasets import ONE_CLASS, Dataset, LabelledImage, Split
from advisor.datasets._dataset import compute_fingerprint
from advisor.engine import Boxes, Images, Role
from advisor.engine._pipeline.images import Object
from advisor.measurement import Detections

CLASSES = ("cat", "dog")
CAT: Object = (0, 0.1, 0.1, 0.3, 0.3)
DOG: Object = (1, 0.5, 0.5, 0.9, 0.9)
SIZE = (200, 100)


def two_classes(each: int = 4) -> Images:
    """Return so many images in each part; every second one is of the other class."""
    made = tuple(LabelledImage(Path(f"data/{n}.jpg"), n % 2, f"{n:064x}") for n in range(3 * each))
    dataset = Dataset(Path("data"), ("a", "b"), made, (), compute_fingerprint(("a", "b"), made))
    return Images(dataset, Split(*(tuple(range(place * each, (place + 1) * each)) for place in range(3)), 0))


def boxed_images(objects: Sequence[Sequence[Object]] = ()) -> Images:
    """Return twelve images, four in each part; by default each has a cat, and every second one a dog too."""
    boxes = tuple(map(tuple, objects)) or tuple((CAT, DOG) if n % 2 else (CAT,) for n in range(12))
    made = tuple(LabelledImage(Path(f"data/{n}.jpg"), 0, f"{n}") for n in range(len(boxes)))
    dataset = Dataset(Path("data"), (ONE_CLASS,), made, (), compute_fingerprint((ONE_CLASS,), made))
    split = Split(tuple(range(4)), tuple(range(4, 8)), tuple(range(8, 12)), 0)
    return Images(dataset, split, boxes=Boxes(CLASSES, boxes, (SIZE,) * len(boxes)))


def save_found(path: Path, images: Images, role: Role, missed: Collection[int] = ()) -> Path:
    """Write that all boxes of a part were found, except those of the images at some places of the part."""
    objects = images.part(role).objects
    answered = [() if place in missed else rows for place, rows in enumerate(objects)]
    Detections.save_all(path, list(map(Detections.of_true_boxes, answered)))
    return path
