"""Images with red squares and green bars on grey noise, and their masks."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = (48, 64)  # height and width
CLASSES = ("background", "square", "bar")


def shapes(number: int, size: tuple[int, int] = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Return an image, and its mask with the values 0, 1 and 2; each third image has neither shape."""
    draw = np.random.default_rng(number)
    pixels, mask = draw.integers(90, 140, (*size, 3), dtype=np.uint8), np.zeros(size, np.uint8)
    if number % 3:
        top, left = (int(draw.integers(0, side - 20)) for side in size)
        height, width = ((16, 16), (8, 20))[number % 3 - 1]
        inside = (slice(top, top + height), slice(left, left + width))
        pixels[inside], mask[inside] = ((230, 30, 30), (30, 230, 30))[number % 3 - 1], number % 3
    return pixels, mask


def save(path: Path, pixels: np.ndarray, mode: str | None = None, **options: object) -> Path:
    """Write an image, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels, mode).save(path, **options)
    return path


def folders(root: Path, count: int = 12, names: Sequence[str] = CLASSES) -> Path:
    """Write images/ and masks/ with their classes, and return the folder."""
    for number in range(count):
        pixels, mask = shapes(number)
        save(root / "images" / f"{number:03}.jpg", pixels, quality=95)
        save(root / "masks" / f"{number:03}.png", mask)
    if names:
        (root / "classes.txt").write_text("\n".join(names))
    return root


def coco(root: Path, count: int = 6, shift: float = 0.0) -> Path:
    """Write a COCO file in which squares are polygons, bars run lengths, and return the folder."""
    images, annotations = [], []
    for number in range(count):
        pixels, mask = shapes(number)
        save(root / f"{number:03}.jpg", pixels, quality=95)
        images.append({"id": number, "file_name": f"{number:03}.jpg", "width": SIZE[1], "height": SIZE[0]})
        if not mask.any():
            continue
        rows, columns = np.nonzero(mask)
        top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
        corners = np.array([left, top, right, top, right, bottom, left, bottom], float)
        runs = np.flatnonzero(np.diff(np.pad(mask.T.reshape(-1) > 0, 1).astype(int)))
        counts = np.diff([0, *runs.tolist(), mask.size]).tolist()
        own = [(corners + shift).tolist()] if number % 3 == 1 else {"size": list(SIZE), "counts": counts}
        annotations.append({"image_id": number, "category_id": number % 3, "segmentation": own, "bbox": [0, 0, 1, 1]})
    categories = [{"id": 1, "name": "square"}, {"id": 2, "name": "bar"}]
    document = {"images": images, "categories": categories, "annotations": annotations}
    (root / "instances.json").write_text(json.dumps(document))
    return root
