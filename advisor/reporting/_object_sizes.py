"""Objects by size: how many a detector finds, what compression costs, which input would help.

The reports of a run with boxes have this section (:func:`size_blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor.core import FLOAT, Evaluation, Interval, ObjectsOfSize, units
from advisor.reporting import _text as text
from advisor.reporting._blocks import Block, Labelled, TableColumn, table_of
from advisor.reporting._view import RunView


def size_blocks(view: RunView) -> Iterator[Block]:
    """Yield how many objects of each size the pick finds, and what is lost;
    nothing where sizes are not known.
    """
    if view.decision.pick is not None:
        # Only boxes can be joined, so counters do not run on tiles.
        tiles = f"advisor predict {view.typed_folder} --tiles 2" if view.task.metrics else ""
        yield from describe_sizes(view.decision.pick, tiles)


def describe_sizes(pick: Evaluation, tiles: str = "") -> Iterator[Block]:
    """Yield the same of one file; ``tiles`` is the command that judges it on tiles."""
    boxes = (pick.holdout_answers or pick.answers).boxes
    if boxes is None or len(boxes.by_size) < 2:
        return
    side = pick.card_facts.input_size or 0
    on = "hold-out" if pick.holdout_answers else "validation"
    columns: tuple[TableColumn[ObjectsOfSize], ...] = (
        TableColumn(
            "side of the object in pixels" if side else "side of the object",
            lambda row: _show_range(row, side),
        ),
        TableColumn("true", lambda row: row.true),
        TableColumn(
            "recall % (95 %)", lambda row: text.share(Interval(row.recall, *row.recall_interval))
        ),
    )
    measured_at = ""
    if side:
        measured_at = f"Pixels are those of the network's input of {side} x {side}. "
    note = (
        f"{measured_at}The objects of the {on} by size, found from a score of"
        f" {boxes.threshold:.2f} on."
    )
    yield replace(table_of(columns, boxes.by_size, caption="Objects by size"), notes=[note])
    lost = _describe_loss(pick, side)
    if lost:
        yield Labelled("What compression costs by size", lost)
    remedy = _describe_remedy(boxes.by_size, side)
    if remedy and tiles:
        remedy += (
            f" Tiles need no new search: {tiles} says what they find on the hold-out, and what"
            " they cost."
        )
    if remedy:
        yield Labelled("Small objects", remedy)


def _show_range(row: ObjectsOfSize, side: int) -> str:
    """Return the range of sizes in pixels of the input,
    or in % of the image's side if the input is not known.
    """
    return _join_ends(row, side or 100, "" if side else " %", text.DASH)


def _describe_range(row: ObjectsOfSize, side: int) -> str:
    """Return the range as it stands in a sentence after a noun."""
    words = _join_ends(row, side or 100, " pixels" if side else " % of the image's side", " to ")
    return words if words.startswith("below") else f"of {words}"


def _join_ends(row: ObjectsOfSize, scale: int, unit: str, between: str) -> str:
    """Return the ends of a range, times the scale;
    the first range has no lower end, and the last no upper one.
    """
    least, below = (f"{scale * end:.0f}" for end in (row.least, row.below))
    if row.below >= 1:
        return f"{least}{unit} or more"
    if row.least <= 0:
        return f"below {below}{unit}"
    return f"{least}{between}{below}{unit}"


def _describe_loss(pick: Evaluation, side: int) -> str:
    """Return which objects a compressed file finds less often than its float32 file;
    empty where it is not known.
    """
    compression = pick.configuration.compression
    boxes = pick.answers.boxes
    if compression == FLOAT or boxes is None:
        return ""
    compared = []
    for row in boxes.by_size:
        if row.lost is not None and row.lost_interval is not None:
            compared.append(row)
    if not compared:
        return ""
    clear = []
    for row in compared:
        low, high = row.lost_interval or (0.0, 0.0)
        # The interval allows that nothing is lost.
        if row.lost is None or low <= 0.0:
            continue
        ends = f"{100 * low:.0f} to {100 * high:.0f}"
        clear.append(
            f"{100 * row.lost:.0f} of 100 fewer objects {_describe_range(row, side)} (95 %:"
            f" {ends})"
        )
    if not clear:
        return (
            f"On validation, {compression} finds as many objects of each size as float32, as far"
            " as the images show."
        )
    return f"On validation, {compression} finds {', and '.join(clear)}, compared with float32."


def _describe_remedy(rows: Sequence[ObjectsOfSize], side: int) -> str:
    """Return which input would make the smallest objects as large as those that are found;
    empty if they are found.
    """
    smallest = rows[0]
    # Only if both intervals are apart: chance finds more large objects, too.
    larger = next(
        (row for row in rows[1:] if row.recall_interval[0] > smallest.recall_interval[1]), None
    )
    if larger is None or not side or smallest.middle <= 0:
        return ""
    # The middle object of the smallest range then is as large as the least one of the other range.
    needed = math.ceil(side * larger.least / smallest.middle / units.INPUT_STEP) * units.INPUT_STEP
    times = (needed / side) ** 2
    shares = (
        f"Of 100 objects {_describe_range(smallest, side)}, {100 * smallest.recall:.0f} are found;"
        f" of 100 {_describe_range(larger, side)}, {100 * larger.recall:.0f}."
    )
    return (
        f"{shares} At an input of {needed} x {needed} pixels, half of the small ones would be of"
        f" that size: search with --input-size {needed}. A network takes about {times:.1f} times"
        " as long there, because its time grows with the area."
    )
