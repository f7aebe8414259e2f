"""Read a folder of unlabelled images, as ``--calibration`` names it, and draw some of them."""

from __future__ import annotations

import random
from pathlib import Path

from advisor.core.errors import StageError, UsageError
from advisor.datasets import decode
from advisor.datasets.images import load

CALIBRATION = 100
FEWEST = 10
"""With fewer calibration images, one unusual image decides the range of every activation."""


def find_images(folder: Path) -> tuple[Path, ...]:
    """Return the readable images of a folder and its sub-folders, sorted.

    Raises:
        UsageError: no such folder, or fewer than ``FEWEST`` readable images in it.
    """
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"--calibration: '{folder}' {what}", "give a folder of images")
    files = sorted(file for file in folder.rglob("*") if file.is_file() and decode.is_candidate(file))
    with decode.quiet():
        verdicts = [(file, _reason(file)) for file in files]
    good = tuple(file for file, reason in verdicts if not reason)
    if len(good) < FEWEST:
        bad = next((f"; '{file.name}': {reason}" for file, reason in verdicts if reason), "")
        raise UsageError(
            f"--calibration: {len(good)} readable images of {len(files)} in '{folder}', and {FEWEST} are needed{bad}",
            f"give about {CALIBRATION} images like those that the app will see",
        )
    return good


def _reason(file: Path) -> str:
    """Return why an image cannot be used; empty if it can."""
    try:
        load(file, decode.MIN_SIDE)
    except StageError as error:
        return error.message
    return ""


def drawn(paths: tuple[Path, ...], count: int, seed: int) -> tuple[Path, ...]:
    """Return ``count`` of the paths, drawn by ``seed`` and sorted; all if there are no more."""
    return paths if len(paths) <= count else tuple(sorted(random.Random(seed).sample(paths, count)))
