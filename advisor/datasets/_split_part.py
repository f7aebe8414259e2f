"""Name the parts of a split.

The names are written into run folders, and commands and messages show them, so they stay. A member
is its name as text. ``_parts.py`` says by which words people name the parts.
"""

from enum import StrEnum


class SplitPart(StrEnum):
    """A part of a split, from the one for training to the one that is used last."""

    TRAIN = "train"
    VALIDATION = "validation"
    HOLDOUT = "holdout"
