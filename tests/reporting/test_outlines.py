from __future__ import annotations

from advisor.datasets.boxes import Box
from advisor.reporting.outlines import COLOURS, DRAWN, outlines


def test_each_class_has_its_colour_and_suspects_are_marked() -> None:
    boxes = [Box("cat", 1, 2, 11, 22), Box("dog", 0, 0, 5, 5), Box("cat", 3, 3, 4, 4)]
    found = {one.name: one.path for one in outlines(boxes, boxes[1:2], {"cat": 0, "dog": 1})}
    assert found == {
        "c0": "M1.0 2.0h10.0v20.0h-10.0zM3.0 3.0h1.0v1.0h-1.0z",
        "c1": "M0.0 0.0h5.0v5.0h-5.0z",
        "marked": "M0.0 0.0h5.0v5.0h-5.0z",
    }


def test_many_classes_share_colours() -> None:
    assert [one.name for one in outlines([Box("x", 0, 0, 1, 1)], (), {"x": COLOURS + 1})] == ["c1"]


def test_only_so_many_boxes_are_drawn() -> None:
    (one,) = outlines([Box("x", 0, 0, 1, 1)] * (DRAWN + 5), (), {"x": 0})
    assert one.path.count("M") == DRAWN
