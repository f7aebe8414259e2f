"""The trees of well-known public sets are read right, or asked about in one question."""

from collections import Counter
from pathlib import Path

import pytest

from advisor.core import AmbiguousInput
from advisor.datasets import list_files
from advisor.datasets._boxes import list_boxes
from tests.datasets.public_layouts import SETS


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
