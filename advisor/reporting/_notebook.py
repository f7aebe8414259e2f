"""A search in a Jupyter notebook: one cell with a progress bar, the answer so far, and a plot.

:func:`advisor.search` opens the :class:`Cell` if IPython runs with a kernel. The cell
is HTML without scripts.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.core import Evaluation, show_ms
from advisor.reporting import _phrases as phrases
from advisor.reporting._explanation import opening_lines
from advisor.reporting._pages import render
from advisor.reporting._view import RunView

EVERY_S = 0.5
"""Least seconds between two states of the bar: a kernel may be far from its reader."""

LINES = 3
LENGTH = 300
"""Last lines about failures that are kept, and characters of each."""

WIDTH = 360
HEIGHT = 150
"""Size of the plot in pixels; points that fall on one pixel are one, which limits its bytes."""


def cell() -> Cell | None:
    """Return a new output below the running code of a Jupyter notebook;
    None elsewhere, without importing IPython.
    """
    ipython: Any = sys.modules.get("IPython")
    # IPython without a kernel runs in a terminal, which shows no HTML.
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    return Cell(
        ipython.display.display({"text/html": "", "text/plain": ""}, raw=True, display_id=True)
    )


class Cell:
    """One output that is replaced while a search runs: a
    :class:`advisor.engine._progress.Display`.

    At the end, the answer and the plot stay. ``handle`` is the ``DisplayHandle`` of the output.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._lines = deque[str](maxlen=LINES)
        self._view: RunView | None = None
        self._drawn_s = -math.inf

    def status(self, line: str, share: float) -> None:
        """Move the bar, unless it has just moved."""
        if time.monotonic() >= self._drawn_s + EVERY_S:
            self._drawn_s = time.monotonic()
            self._draw(line, share)

    def tell(self, line: str) -> None:
        """Keep a line below the bar."""
        self._lines.append(line[:LENGTH])

    def answer(self, view: RunView) -> str:
        """Keep the content of the report so far. Returns "", as there is no line to tell."""
        self._view = view
        return ""

    def close(self) -> None:
        """Remove the bar."""
        self._draw()

    def _draw(self, line: str = "", share: float = 0.0) -> None:
        shown = cell_html(self._view, line, share, tuple(self._lines))
        self._handle.update({"text/html": shown, "text/plain": line}, raw=True)


def cell_html(
    view: RunView | None, line: str = "", share: float = 0.0, messages: Sequence[str] = ()
) -> str:
    """Return a fragment without scripts:
    a bar where there is a ``line``, ``messages``, and the answer of a view.
    """
    values = {"line": line, "share": share, "messages": messages, "width": WIDTH, "height": HEIGHT}
    if view is None:
        return render("notebook", **values, points="")
    return render(
        "notebook",
        **values,
        opening=opening_lines(view),
        counts=phrases.counts(view),
        **_draw_plot(view),
    )


def _draw_plot(view: RunView) -> dict[str, object]:
    """Return accuracy against latency as the variables of the template, in whole pixels."""
    rows_with_figures = []
    for row in view.ok:
        if row.accuracy and 0.0 < row.latency_ms < math.inf:
            rows_with_figures.append(row)
    if not rows_with_figures:
        return {"points": ""}
    accuracies = sorted(evaluation.accuracy_percent for evaluation in rows_with_figures)
    times = sorted(evaluation.latency_ms for evaluation in rows_with_figures)

    def place(evaluation: Evaluation) -> tuple[int, int]:
        # Latencies of networks differ by two orders of magnitude.
        x = _place_between(
            math.log(evaluation.latency_ms), math.log(times[0]), math.log(times[-1])
        )
        y = _place_between(evaluation.accuracy_percent, accuracies[0], accuracies[-1])
        # SVG counts from the top.
        return round(WIDTH * x), round(HEIGHT * (1 - y))

    def dots(evaluations: Iterable[Evaluation]) -> str:
        return "".join(f"M{x} {y}h0" for x, y in sorted(set(map(place, evaluations))))

    pick = view.decision.pick
    part = " on validation" if view.dataset else ""
    return {
        "points": dots(rows_with_figures),
        "front": dots(
            row for row in rows_with_figures if row.configuration.key in view.front_keys
        ),
        "pick": place(pick) if pick in rows_with_figures else None,
        "metric": f"{view.task.heading}{part}",
        "accuracies": [f"{end:.1f} %" for end in (accuracies[0], accuracies[-1])],
        "times": list(map(show_ms, (times[0], times[-1]))),
    }


def _place_between(value: float, least: float, most: float) -> float:
    """Return where a value is between two others (0-1)."""
    if most > least:
        return (value - least) / (most - least)
    return 0.5
