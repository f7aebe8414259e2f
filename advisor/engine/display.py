"""Show the progress of a search: a bar on a terminal, or lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Never, Protocol

from advisor.core.units import show_seconds

if TYPE_CHECKING:
    from tqdm import tqdm

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
        self._bar: tqdm[Never] | None = None

    def status(self, line: str, share: float) -> None:
        """Move the bar."""
        bar = self._opened()
        bar.n = share
        bar.set_description_str(line, refresh=True)

    def tell(self, line: str) -> None:
        """Write above the bar."""
        self._opened().write(line, file=sys.stderr)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _opened(self) -> tqdm[Never]:
        if self._bar is None:
            from tqdm import tqdm

            form = "{percentage:3.0f}% |{bar:20}| {elapsed} {desc}"
            self._bar = tqdm(total=1.0, file=sys.stderr, leave=False, dynamic_ncols=True, bar_format=form)
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
