"""Find how far a search came that has not ended, and the command that continues it.

An answer so far, and a report of a search that was killed, say it.
"""

import shlex
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from advisor.core import units
from advisor.engine._history.loaded_run import LoadedRun

CONTINUES_FOR = "10min"
"""Time that a command gives a search that is continued."""


def continue_command(folder: object) -> str:
    """Return the command that continues a search which its time limit ended."""
    return f"advisor search --resume {shlex.quote(str(folder))} --extend {CONTINUES_FOR}"


@dataclass(frozen=True)
class Unfinished:
    """A search that has not ended.

    Attributes:
        evaluated: number of configurations with a result, or with a reason why they have none.
        configurations: number of all configurations of the search.
        running: the search itself gives this answer; otherwise it may run or have been stopped.
        at: date and time as ISO 8601 in UTC, to the second.
    """

    evaluated: int
    configurations: int
    running: bool
    at: str

    def sentence(self, folder: str) -> str:
        """Return the state in words, with the command that continues a search in ``folder``."""
        state = "Search is running" if self.running else "The search has not ended"
        when = units.show_time(datetime.fromisoformat(self.at))
        return (
            f"{state}, {self.evaluated} of {self.configurations} configurations have results"
            f" ({when}). If it was stopped, continue it: advisor search --resume"
            f" {shlex.quote(folder)}"
        )


def read_unfinished_search(run: LoadedRun, running: bool) -> Unfinished | None:
    """Return how far a search came; None if its manifest says why it ended,
    or is missing or damaged.
    """
    configurations = run.manifest.get("configurations")
    if not isinstance(configurations, int) or (run.manifest.get("stopped") and not running):
        return None
    devices = Counter(evaluation.configuration.target.device for evaluation in run.evaluations)
    evaluated = min(configurations, max(devices.values(), default=0))
    return Unfinished(
        evaluated, configurations, running, datetime.now(UTC).isoformat(timespec="seconds")
    )
