"""Show the progress of a search: a bar on a terminal, or lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Protocol

from advisor.core.units import show_seconds

if TYPE_CHECKING:
    from rich.progress import Progress

EVERY_S = 30.0
"""Seconds after which a log gets the next line about the current work."""


class Display(Protocol):
    """Shows a search to a person."""

    def status(self, line: str, share: float) -> None:
        """Show the current work, and the share (0-1) of the work that is done; the next call replaces it."""

    def tell(self, line: str) -> None:
        """Show a line that stays."""

    def close(self) -> None:
        """Remove what does not stay."""


class Bar:
    """A bar on standard error, with the lines that stay above it."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def status(self, line: str, share: float) -> None:
        """Move the bar."""
        bar = self._opened()
        bar.update(bar.task_ids[0], completed=share, description=line)
        bar.refresh()

    def tell(self, line: str) -> None:
        """Write above the bar."""
        self._opened().console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _opened(self) -> Progress:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.percentage:3.0f}%"),
                BarColumn(20),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )
            # No thread draws it again and again: a measurement may run.
            self._bar = Progress(
                *columns, console=Console(stderr=True), auto_refresh=False, transient=True, redirect_stdout=False,
                redirect_stderr=False,
            )  # fmt: skip
            self._bar.add_task("", total=1.0)
            self._bar.start()
        return self._bar


class Lines:
    """Lines on standard error, each with the time since the start; the current work every :data:`EVERY_S` seconds."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last: float | None = None

    def status(self, line: str, share: float) -> None:
        """Write the first line, and then one whenever nothing was written for a while."""
        if self._last is None or time.monotonic() - self._last >= EVERY_S:
            self.tell(line)

    def tell(self, line: str) -> None:
        """Write a line."""
        self._last = time.monotonic()
        with contextlib.suppress(OSError, ValueError):  # a log that cannot be written does not end the search
            print(f"[{show_seconds(self._last - self._started)}] {line}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing."""


def display() -> Display:
    """Return the display for standard error."""
    return Bar() if sys.stderr.isatty() else Lines()
