"""Put a recipe's notes into words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NAMED = 4


def notes_text(notes: Mapping[str, Any]) -> str:
    """Return a recipe's notes as a sentence; empty if there are none."""
    return "; ".join((*_left_in_float(notes), *_zeros(notes), *_learnt(notes)))


def _left_in_float(notes: Mapping[str, Any]) -> Iterator[str]:
    left = notes.get("float_operators")
    if left is None:
        return
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    named = f": {', '.join(map(str, left[:NAMED]))}{more}" if left else ""
    yield f"{len(left)} operators left in float{named}"
    if "latency_ms" in notes and "int8_latency_ms" in notes:
        yield f"{notes['latency_ms']:.2f} ms, int8 takes {notes['int8_latency_ms']:.2f}"
    if "drop_points" in notes and "int8_drop_points" in notes:
        scored = f"{notes.get('judged_on', 0)} images that chose it"
        yield f"loses {notes['drop_points']:.1f} points on {scored}, int8 loses {notes['int8_drop_points']:.1f}"


def _zeros(notes: Mapping[str, Any]) -> Iterator[str]:
    if "zero_share" in notes:
        yield f"{notes['zero_share']:.0%} of the weights are 0"


def _learnt(notes: Mapping[str, Any]) -> Iterator[str]:
    course = notes.get("learning")
    if isinstance(course, Mapping) and "steps" in course and "seconds" in course:
        yield f"trained {course['steps']} steps in {course['seconds']:.0f} s"
