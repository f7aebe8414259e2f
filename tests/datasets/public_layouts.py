"""The folder trees of the 20 most used public sets, small: their images, their other files, and what is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from PIL import Image

PIXELS = 8


@dataclass(frozen=True)
class PublicSet:
    """The tree of a set, and its reading.

    ``classes`` are the right classes with their numbers of images; ``asked`` is the option that answers the one
    question that is asked first, with ``ROOT`` for the folder; ``parts`` are those of its own split.
    """

    images: Sequence[str]
    classes: Mapping[str, int]
    parts: Sequence[str] = ("",)
    files: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""

    def write(self, root: Path) -> Path:
        """Write the tree, and return its folder."""
        for name in self.images:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (PIXELS, PIXELS)).save(root / name)
        for name, text in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root


ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SETS = {name: PublicSet(**row) for name, row in ROWS.items()}
"""The sets by their names."""
