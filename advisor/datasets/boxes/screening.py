"""Leave out boxes that cannot be right, before the images are opened; each with its file, line and reason."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from advisor.datasets.boxes.values import Box, BoxEntry, BoxFault, BoxListing
from advisor.datasets.dataset import Rejected

MAX_BOXES = 10_000
"""Boxes of one image, at most: two boxes for each of 5,000 objects."""

MAX_LABEL = 1000

_FAR = 2.0
"""Shares of an image beyond this are pixels: a box outside the image is not twice as far away."""


def screened(listing: BoxListing) -> BoxListing:
    """Return a listing without the boxes that cannot be right, and whether edges are pixels or shares.

    Edges are shares of the image if most boxes are inside 0 to 1.
    """
    relative = _mostly_relative(listing) if listing.relative is None else listing.relative
    entries: list[BoxEntry] = []
    faults: list[BoxFault] = []
    rejected: list[Rejected] = []
    seen: set[Path] = set()
    for entry in listing.entries:
        if refused := _refused(entry, seen):
            rejected.append(Rejected(entry.source, refused))
            continue
        seen.add(entry.path)
        reasons = [_fault(box, relative) for box in entry.boxes]
        pairs = list(zip(entry.boxes, reasons, strict=True))
        faults += [listing.fault(entry, box, reason) for box, reason in pairs if reason]
        entries.append(replace(entry, boxes=tuple(box for box, reason in pairs if not reason)))
    return replace(
        listing,
        entries=entries,
        rejected=[*listing.rejected, *rejected],
        faults=[*listing.faults, *faults],
        relative=relative,
    )


def _refused(entry: BoxEntry, seen: set[Path]) -> str:
    """Return why an image and all of its boxes are left out, empty if they are not."""
    if entry.path in seen:
        return f"it has '{entry.path.name}' a second time; the first counts"
    if len(entry.boxes) > MAX_BOXES:
        return f"{len(entry.boxes):,} boxes of '{entry.path.name}', above the limit of {MAX_BOXES:,}"
    return ""


def _fault(box: Box, relative: bool) -> str:
    """Return what is wrong with a box, empty if nothing is."""
    if not all(map(math.isfinite, box.edges)):
        return "an edge is missing or not a number"
    if not box.label.strip():
        return "no label"
    if len(box.label) > MAX_LABEL or "\0" in box.label:
        return f"a label with NUL or of more than {MAX_LABEL:,} characters"
    if relative and max(map(abs, box.edges)) > _FAR:
        return "pixels, where coordinates from 0 to 1 are expected"
    if not relative and _within_one(box) and box.right > box.left:
        return "coordinates from 0 to 1, where pixels are expected"
    if box.right < box.left or box.bottom < box.top:
        return "the right edge is left of the left one, or the bottom above the top"
    return "" if box.width > 0 and box.height > 0 else "no width or no height"


def _mostly_relative(listing: BoxListing) -> bool:
    within = [_within_one(box) for entry in listing.entries for box in entry.boxes]
    return sum(within) > len(within) / 2


def _within_one(box: Box) -> bool:
    return all(0 <= edge <= 1 for edge in box.edges)
