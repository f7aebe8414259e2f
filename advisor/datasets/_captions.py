"""Refuse texts that describe images where classes are expected.

Tables and archives are refused before they are listed: a class of one image each teaches a model
nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from advisor.core import UsageError, plain

CAPTION_WORDS = 3  # From this number of words on, a text describes an image
SHOWN = 80  # Characters of a text in an error


def refuse_captions(path: Path, labels: Collection[str], images: int) -> None:
    """Refuse a table or file whose images have a text each: they are described, and not sorted."""
    texts = sum(len(label.split()) >= CAPTION_WORDS for label in labels)
    # Classes repeat, and descriptions do not.
    if len(labels) == images > 1 and texts >= images / 2:
        raise UsageError(
            f"--data: '{path}' has another text for each image, such as"
            f" '{plain(min(labels))[:SHOWN]}'",
            "captions are no classes: give a table with the columns path and label",
        )
