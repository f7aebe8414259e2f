"""Images with any number of labels, and tables of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

COUNT = 60
RNG = np.random.default_rng


def write_images(folder: Path, count: int = COUNT) -> Path:
    """Write images of noise whose red, green and blue are raised where the labels r, g and b are there."""
    for number in range(count):
        pixels = RNG(number).integers(0, 90, (40, 40, 3)) + 120 * np.array([number >> bit & 1 for bit in range(3)])
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.png")
    return folder


def labels_of(number: int, names: str = "rgb") -> list[str]:
    return [name for bit, name in enumerate(names) if number >> bit & 1]


def write_table(folder: Path, rows: Callable[[int], str], header: str = "path,labels", name: str = "tags.csv") -> Path:
    lines = [header, *(f"{number:02}.png,{rows(number)}" for number in range(COUNT))]
    (folder / name).write_text("\n".join(filter(None, lines)) + "\n", encoding="utf-8")
    return folder / name


def mark_labels(number: int, yes: str = "1", no: str = "0") -> str:
    return ",".join(yes if number >> bit & 1 else no for bit in range(3))


def write_tags(folder: Path) -> None:
    """Write images and a table with all their labels in one column."""
    write_table(write_images(folder), lambda number: "|".join(labels_of(number)))
