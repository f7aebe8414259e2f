"""Define groups of images that were each taken on one occasion, and how the groups were found.

``_grouping.py`` finds them. A :class:`Grouping` is written into ``split.json`` and reports by its
``entries``.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from advisor.core import Written
from advisor.datasets._dataset import members_of


class Source(StrEnum):
    """The source of the groups, in the words of messages."""

    NONE = ""
    MANIFEST = "column 'group' of the manifest"
    CAMERA = "time and camera of each photo"
    SEQUENCE = "file names in sequence"
    APPEARANCE = "similar light and background"


@dataclass(frozen=True)
class Grouping(Written):
    """Groups of images, each taken on one occasion.

    Attributes:
        of: number of the group of each image of the dataset; empty if the images do not come in
            groups.
        source: how the groups were found.
    """

    entries = ("source", "groups=count", "largest")

    of: tuple[int, ...] = ()
    source: Source = Source.NONE

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(set(self.of))

    @property
    def largest(self) -> int:
        """Images in the largest group, 0 without groups."""
        return max(Counter(self.of).values(), default=0)

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The indices of each group."""
        return tuple(map(tuple, members_of(self.of).values()))
