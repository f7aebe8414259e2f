"""The run that a search writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.store import RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from advisor.reporting.view import RunView


@dataclass(frozen=True)
class Run:
    """A finished or interrupted search, read from its folder.

    Attributes:
        path: the run folder.
        interrupted: True if the user interrupted the search.
        stopped: why the search ended before every configuration was evaluated; empty if it did not.
    """

    path: Path
    interrupted: bool = False
    stopped: str = ""

    @cached_property
    def view(self) -> RunView:
        """The content of the report."""
        from advisor.reporting.view import load_view

        return load_view(RunFolder.open(self.path))

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every configuration with its result, or the reason why it has none."""
        return self.view.evaluations

    @property
    def decision(self) -> Decision:
        """The pick with its reason, the runner-up, the ties, and what would change the pick."""
        return self.view.decision

    @property
    def pick(self) -> Evaluation | None:
        """The recommended evaluation; the one closest to the limits if nothing meets the budget."""
        return self.decision.pick

    @property
    def report(self) -> Path:
        """Path of the report to open in a browser."""
        return self.path / "report.html"

    def to_frame(self) -> pd.DataFrame:
        """Return every evaluation as a row of a table.

        The unit is in the name of a column: ``latency_p90_ms``, ``size_bytes``, ``top1_percent``. Texts have the type
        ``str``, numbers ``float64``, whole numbers ``Int64`` and true or false ``boolean``; see ``docs/report.md``.
        """
        from advisor.reporting.frames import evaluations_frame

        return evaluations_frame(self.view, self.evaluations)

    def _repr_html_(self) -> str:
        from advisor.reporting.html import summary_html

        return summary_html(self.view)
