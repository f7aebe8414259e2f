"""Why a search ended, and when more of it would not help."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from advisor.engine.scheduling.study import Study

HORIZON_S = 3600.0
"""What an hour more is expected to add decides whether it is worth it."""

STAYS = 3
"""How many results in a row must leave the expectation below the share: one surprise may still change it."""


@dataclass(frozen=True)
class Stop:
    """Why a search ended.

    Attributes:
        why: ``complete``, ``time_limit``, ``max_trials``, ``gain`` or ``interrupt``.
        text: the same in a sentence, with what was left.
    """

    why: str
    text: str

    @property
    def early(self) -> bool:
        """True where something was left to evaluate."""
        return self.why != "complete"

    @property
    def reason(self) -> str:
        """The text without what was left."""
        return self.text.partition(": ")[0]

    def to_json(self) -> dict[str, str]:
        """Return a JSON object."""
        return asdict(self)


COMPLETE = Stop("complete", "every configuration was evaluated")
INTERRUPTED = Stop("interrupt", "interrupted")


def time_limit_reached(limit: str, left: int) -> Stop:
    """Say that the time is over."""
    return Stop("time_limit", f"stopped at --time-limit {limit}: {_left(left)}")


def max_trials_reached(limit: int, left: int) -> Stop:
    """Say that as many configurations were evaluated as were asked for."""
    return Stop("max_trials", f"stopped at --max-trials {limit}: {_left(left)}")


class Worth:
    """Watches what more would gain.

    Args:
        study: says what is expected.
        least: share of the front's hypervolume below which an hour more is not worth it; None to go on to the end.
    """

    def __init__(self, study: Study, least: float | None) -> None:
        self._study, self._least = study, least
        self._below = 0
        self._gain = float("inf")

    @property
    def ended(self) -> bool:
        """True where the expectation stayed below the share."""
        return self._below >= STAYS

    def look(self) -> None:
        """Look at the expectation again, after a result."""
        if self._least is None or self.ended:
            return
        self._gain = self._study.expected_gain(HORIZON_S)
        self._below = self._below + 1 if self._gain < self._least else 0

    def stop(self, left: int) -> Stop:
        """Say that more is not worth it."""
        least = 100 * (self._least or 0.0)
        text = (
            f"stopped because an hour more was expected to add {100 * self._gain:.2g} % to the front's hypervolume, "
            f"less than --stop-below {least:g}%: {_left(left)}"
        )
        return Stop("gain", text)


def _left(count: int) -> str:
    return f"{count} configuration{'' if count == 1 else 's'} not evaluated"
