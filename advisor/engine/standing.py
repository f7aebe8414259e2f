"""Keep the progress of a running search in a small file of its run, which other processes show."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core.codec import parse_known, to_json, types_of
from advisor.core.units import show_seconds
from advisor.store import RunFolder

FILE = "progress.json"


@dataclass(frozen=True)
class Standing:
    """A moment of a search.

    Attributes:
        now: the current work in words.
        evaluated: configurations with a result, or with a reason why they have none.
        configurations: all configurations of the search; 0 before its plan is known.
        left_s: expected seconds to the end; None before the plan is known.
        share: share (0-1) of the planned work that is done, or of the time limit that is over where that comes first.
        limited: True if the time limit ends the search before the planned work is done.
    """

    now: str
    evaluated: int = 0
    configurations: int = 0
    left_s: float | None = None
    share: float = 0.0
    limited: bool = False

    @property
    def left(self) -> str:
        """The time left in words; empty before the plan is known, and when the time limit is over."""
        if self.left_s is None or (self.limited and not self.left_s):
            return ""
        how = "{} of --time-limit left" if self.limited else "about {} left"
        return how.format(show_seconds(self.left_s))

    @property
    def line(self) -> str:
        """All of it in one line."""
        if self.left_s is None:
            return self.now
        left = f", {self.left}" if self.left else ""
        return f"{self.evaluated} of {self.configurations} evaluated{left}: {self.now}"


def write_standing(run: RunFolder, standing: Standing) -> None:
    """Write a moment to the run; it replaces the last one.

    Raises:
        OSError: the file cannot be written.
    """
    run.write_json(FILE, to_json(standing))


def read_standing(run: RunFolder) -> Standing | None:
    """Return the last moment that the search wrote; None if there is none. After a killed search it stays."""
    known = parse_known(types_of(Standing), run.read_json(FILE))
    return Standing(**known) if "now" in known else None
