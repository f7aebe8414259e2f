"""Define the columns of a kind of table: their names here, and the titles that are accepted.

Tables of classes, boxes, masks and sets of labels each have a :class:`ManifestColumns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERTEX_PART = "dataitemresourcelabels.aiplatform.googleapis.com/ml_use"

SPLIT: dict[str, tuple[str, ...]] = {
    "split": (
        "split",
        "part",
        "subset",
        "data_split",
        "split_name",
        "usage",
        "ml_use",
        VERTEX_PART,
    ),
    "group": ("group",),
    **{f"is_{name}": (f"is_{name}", f"is_{name}ing") for name in ("train", "valid", "test")},
}
"""Columns that each kind of table may have.
``is_train`` and the like are 1 or true for the images of a part.
"""


@dataclass(frozen=True)
class ManifestColumns:
    """The columns of a kind of table."""

    names: Mapping[str, tuple[str, ...]]  # the columns and their accepted names, in any case
    needed: tuple[str, ...]  # the columns that a table must have
    hint: str  # what a table should look like, for errors
    lists: bool = True  # whether each label of a cell with a list has a row


def columns_of_table(
    images: tuple[str, ...],
    labels: tuple[str, ...],
    hint: str,
    edges: Mapping[str, str],
    **more: tuple[str, ...],
) -> ManifestColumns:
    """Return the columns of a table of boxes; ``edges`` has titles with blanks between them."""
    names = {"path": images, "label": labels, "group_of": ("isgroupof",), **more, **SPLIT}
    names |= {name: tuple(several.split()) for name, several in edges.items()}
    return ManifestColumns(names, ("path", "label", *edges), hint)
