"""The end of a search, and the rule that ends it when more evaluations would not help."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.engine.scheduling.study import Study

HORIZON_S = 3600.0
"""The rule looks at what an hour more is expected to add."""

CONSECUTIVE = 3
"""The expectation must be below the share after this many results in a row: one surprise may still change it."""


@dataclass(frozen=True)
class Stop:
    """The reason that ended a search.

    Attributes:
        why: ``complete``, ``time_limit``, ``max_trials``, ``gain`` or ``interrupt``.
        text: the same in a sentence, with what was left.
    """

    why: str
    text: str

    @property
    def early(self) -> bool:
        """True if something was left to evaluate."""
        return self.why != "complete"

    @property
    def reason(self) -> str:
        """The text without what was left."""
        return self.text.partition(": ")[0]


COMPLETE = Stop("complete", "every configuration was evaluated")
INTERRUPTED = Stop("interrupt", "interrupted")


def time_limit_reached(limit: str, left: int) -> Stop:
    """Return the end of a search by its time limit, with the number of configurations left."""
    return Stop("time_limit", f"stopped at --time-limit {limit}: {_left(left)}")


def max_trials_reached(limit: int, left: int) -> Stop:
    """Return the end of a search by its number of trials, with the number of configurations left."""
    return Stop("max_trials", f"stopped at --max-trials {limit}: {_left(left)}")


class ExpectedGainRule:
    """Ends a search if an hour more is not expected to add enough to the front.

    Args:
        study: says what is expected.
        least: share of the front's hypervolume that an hour more must be expected to add; None for no such rule.
    """

    def __init__(self, study: Study, least: float | None) -> None:
        self._study, self._least = study, least
        self._below = 0
        self._gain = float("inf")

    @property
    def met(self) -> bool:
        """True if the expectation stayed below the share."""
        return self._below >= CONSECUTIVE

    def update(self) -> None:
        """Ask the study again, after a result."""
        if self._least is None or self.met:
            return
        self._gain = self._study.expected_gain(HORIZON_S)
        self._below = self._below + 1 if self._gain < self._least else 0

    def stop(self, left: int) -> Stop:
        """Return the end of the search by this rule, with the number of configurations left."""
        least = 100 * (self._least or 0.0)
        text = (
            f"stopped because an hour more was expected to add {100 * self._gain:.2g} % to the front's hypervolume, "
            f"less than --stop-below {least:g}%: {_left(left)}"
        )
        return Stop("gain", text)


def _left(count: int) -> str:
    return f"{count} configuration{'' if count == 1 else 's'} not evaluated"
