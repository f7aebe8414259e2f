"""The end of a search as a value: what ended it, in words for people, and what was left.

The search loop makes it and the manifest of the run keeps it: the values of :class:`StopKind` are
written there, so they stay.
"""

from dataclasses import dataclass
from enum import StrEnum


class StopKind(StrEnum):
    """The reason for which a search ended."""

    COMPLETE = "complete"
    TIME_LIMIT = "time_limit"
    MAX_TRIALS = "max_trials"
    GAIN = "gain"  # What is left is expected to gain too little
    INTERRUPT = "interrupt"


@dataclass(frozen=True)
class Stop:
    """The end of a search: what ended it, the reason in words,
    and how many configurations were left, if any.
    """

    why: StopKind
    reason: str
    left: int | None = None

    @property
    def early(self) -> bool:
        """True if something was left to evaluate."""
        return self.why is not StopKind.COMPLETE

    @property
    def interrupted(self) -> bool:
        """True if the user ended it."""
        return self.why is StopKind.INTERRUPT

    @property
    def lacked_time(self) -> bool:
        """True if the user or the time limit ended it."""
        return self.why in (StopKind.INTERRUPT, StopKind.TIME_LIMIT)

    @property
    def text(self) -> str:
        """The reason, and what was left."""
        if self.left is None:
            return self.reason
        return (
            f"{self.reason}: {self.left} configuration{'' if self.left == 1 else 's'} not"
            " evaluated"
        )


def end_early(why: StopKind, how: str, left: int) -> Stop:
    """Return the end of a search with a number of configurations left."""
    return Stop(why, f"stopped {how}", left)
