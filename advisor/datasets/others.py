"""Read images of things that are none of the classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from advisor.core.errors import UsageError
from advisor.datasets.checks.findings import counted
from advisor.datasets.dataset import Entry, LabelledImage, Listing
from advisor.datasets.duplicates import near_duplicates
from advisor.datasets.layouts import missing_hint
from advisor.datasets.layouts.folders import images_in
from advisor.datasets.survey import Survey, survey

HINT = "name a folder of images of things that are none of your classes"


def read_others(folder: Path, known: Survey) -> tuple[tuple[LabelledImage, ...], str]:
    """Return the images of a folder, and a sentence about them.

    Images that show the same as known ones are left out, as are files that cannot be read. The label of each is 0.

    Args:
        folder: images at any depth.
        known: the images of the classes.

    Raises:
        UsageError: the folder is missing, or no image is left.
    """
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"--unknown: '{folder}' {what}", missing_hint(folder, HINT))
    files = images_in(folder)
    if not files:
        raise UsageError(f"--unknown: no image below '{folder}'", HINT)
    read = survey(Listing(folder, [Entry(file, "unknown") for file in files]))
    first = len(known.dataset.images)
    pairs = near_duplicates(np.concatenate([known.thumbnails, read.thumbnails]))
    copies = {pair.second - first for pair in pairs if pair.first < first <= pair.second}
    images = tuple(image for place, image in enumerate(read.dataset.images) if place not in copies)
    reasons = [
        *([f"{counted(len(copies), 'shows', 'show')} the same as images of --data"] if copies else []),
        *([f"{len(read.dataset.rejected)} cannot be read"] if read.dataset.rejected else []),
    ]
    if not images:
        raise UsageError(f"--unknown: no image below '{folder}' can be used: {', '.join(reasons)}", HINT)
    found = f"--unknown: {counted(len(images), 'image', 'images')} of other things"
    return images, f"{found}; left out: {', '.join(reasons)}" if reasons else found
