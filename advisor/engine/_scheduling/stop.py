"""The end of a search."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """The end of a search: ``complete``, ``time_limit``, ``max_trials``, ``gain`` or ``interrupt``, and its reason."""

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
