"""The trees of well-known public sets are read right, or asked about in one question."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PIL import Image

from advisor.core import AmbiguousInput
from advisor.datasets import list_files
from advisor.datasets._boxes import list_boxes
from advisor.store import read_yaml

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


ROWS = read_yaml(Path(__file__).with_name("public_layouts.yaml")).values
SETS = {name: PublicSet(**row) for name, row in ROWS.items()}
"""The sets by their names."""


@pytest.mark.parametrize("name", SETS)
def test_a_public_set_is_read_right_or_asked_about_in_one_question(tmp_path: Path, name: str) -> None:
    public = SETS[name]
    data = public.write(tmp_path)
    if public.asked:
        with pytest.raises(AmbiguousInput) as asked:
            list_files(tmp_path)
        data = Path(public.asked.replace("ROOT", str(tmp_path)))
        assert str(data) in [reading.options["data"] for reading in asked.value.readings]
    listing = list_files(data)
    entries = [entry for entry in listing.entries if entry.path.exists()]
    assert Counter(entry.label for entry in entries) == public.classes
    assert {entry.part for entry in entries} == set(public.parts)


def test_the_boxes_of_open_images_are_read_from_their_table(tmp_path: Path) -> None:
    listing = list_boxes(SETS["Open Images"].write(tmp_path))
    boxes = {entry.path.name: [(box.label, *box.edges) for box in entry.boxes] for entry in listing.entries}
    assert boxes == {"a1.jpg": [("Cat", 0.25, 0, 0.75, 0.5)], "a3.jpg": [("Dog", 0, 0, 1, 1)]}
    assert [fault.reason for fault in listing.faults] == ["it marks a group (IsGroupOf), not one object"]
