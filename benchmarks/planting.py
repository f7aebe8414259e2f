"""A copy of a data set with known faults: swapped labels and near-duplicates, for a check to find."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageEnhance

SWAPPED, COPIED = 0.05, 0.03
"""Shares of the pictures."""


@dataclass(frozen=True)
class Planted:
    """What was planted, by paths in the copy.

    Attributes:
        root: the copy, one sub-folder a class.
        swapped: pictures that lie in a class that is not theirs.
        copies: each near-duplicate with the picture that it was made from.
        changes: how each near-duplicate was made.
    """

    root: Path
    swapped: frozenset[Path]
    copies: dict[Path, Path]
    changes: dict[Path, str]


def plant(source: Path, target: Path, seed: int = 0, images: int | None = None) -> Planted:
    """Copy a folder of pictures, one sub-folder a class, and plant faults in the copy.

    Labels are swapped and copies are made of different pictures; a copy lies in its picture's class. Classes get equal
    shares of both.

    Args:
        source: the folder; it is not changed.
        target: where the copy goes; it must not exist.
        seed: draws the pictures and the changes.
        images: how many of the source's to take, all where None.
    """
    draw = random.Random(seed)
    names = sorted(folder.name for folder in source.iterdir() if folder.is_dir())
    files = sorted(file for name in names for file in (source / name).iterdir())
    chosen = sorted(draw.sample(files, images or len(files)))
    shuffled = draw.sample(chosen, len(chosen))
    swaps, copies = round(SWAPPED * len(chosen)), round(COPIED * len(chosen))
    place = {file: file.parent.name for file in chosen}
    for file in shuffled[:swaps]:
        place[file] = draw.choice([name for name in names if name != file.parent.name])
    for name in names:
        (target / name).mkdir(parents=True)
    paths = {file: Path(shutil.copyfile(file, target / name / file.name)) for file, name in place.items()}
    made = {paths[file]: draw.choice(sorted(CHANGES)) for file in shuffled[swaps : swaps + copies]}
    written = {_write(original, change, draw): original for original, change in made.items()}
    return Planted(
        target,
        frozenset(paths[file] for file in shuffled[:swaps]),
        written,
        {copy: made[original] for copy, original in written.items()},
    )


def _write(original: Path, change: str, draw: random.Random) -> Path:
    copy = original.with_name(f"{original.stem}-again.jpg")
    with Image.open(original) as image:
        CHANGES[change](image.convert("RGB"), draw).save(copy, quality=draw.randint(40, 90))
    return copy


def _cropped(image: Image.Image, draw: random.Random) -> Image.Image:
    """Keep 85 to 97 % of both sides, from anywhere."""
    kept = draw.uniform(0.85, 0.97)
    width, height = (round(kept * side) for side in image.size)
    left, top = draw.randint(0, image.width - width), draw.randint(0, image.height - height)
    return image.crop((left, top, left + width, top + height))


def _relit(image: Image.Image, draw: random.Random) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(draw.choice([draw.uniform(0.6, 0.9), draw.uniform(1.1, 1.4)]))


def _both(image: Image.Image, draw: random.Random) -> Image.Image:
    return _relit(_cropped(image, draw), draw)


CHANGES: dict[str, Callable[[Image.Image, random.Random], Image.Image]] = {
    "re-encoded": lambda image, _draw: image,
    "cropped": _cropped,
    "relit": _relit,
    "cropped and relit": _both,
}
"""Every copy is re-encoded as JPEG of quality 40 to 90 besides."""
