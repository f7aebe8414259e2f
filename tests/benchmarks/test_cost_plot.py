"""The plot of what is reached against seconds."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.cost_plot import plot

CURVES = {"advisor": [[0.5, 0.9, 1.0], [0.3, 0.9, 1.0], [0.6, 0.8, 1.0]], "random": [[0.1, 0.5, 1.0]]}


def _lines() -> list[list[tuple[float, float]]]:
    tree = ElementTree.fromstring(plot(CURVES, 600.0, {0.95: 0.25}))
    found = [each.attrib["points"] for each in tree.iter() if each.tag.endswith("polyline")]
    return [[tuple(map(float, pair.split(","))) for pair in points.split()] for points in found]


def test_every_method_has_a_line_that_begins_with_nothing_and_ends_with_everything() -> None:
    first, second = _lines()
    assert first[0] == second[0]
    assert first[-1] == second[-1]
    assert first[0][1] > first[-1][1]  # y grows downwards


def test_a_line_is_the_median_over_seeds() -> None:
    first, second = _lines()
    share = (first[0][1] - first[1][1]) / (first[0][1] - first[-1][1])
    assert round(share, 2) == 0.5
    assert first[1][1] < second[1][1]


def test_the_axes_and_the_methods_are_named() -> None:
    text = "".join(ElementTree.fromstring(plot(CURVES, 600.0, {0.95: 0.25})).itertext())
    assert all(each in text for each in ("advisor", "random", "seconds", "500", "hypervolume", "95% to reach by here"))
