"""Find the range of tighter budgets in which another file is the pick.

``_decision.py`` asks for the changes of an answer. A tighter limit leaves out files, and is
another scale of the preference too, so the rule decides again at each budget that is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from advisor.core._choosing import Chooser
from advisor.core._evaluation import Evaluation
from advisor.core._quantity import Provenance
from advisor.core._units import round_down, round_up, show_ms, show_size_limit

PREDICTED_APART = 0.05
"""Share by which a predicted latency must be below another one to answer a tighter budget.
Predictions that differ by less do not show which is faster.
"""

APART = 0.02
"""The same share of measured latencies and sizes: nobody sets a limit for less."""

HALVINGS = 8
"""Steps in which the least budget of another pick is sought: to 0.4 % of the range."""


class ChangedPick(NamedTuple):
    """Another pick, and the budgets for which it is the pick: from ``low`` on, below ``high``."""

    pick: Evaluation
    low: float
    high: float


@dataclass(frozen=True)
class TightenedLimit:
    """A limit of one figure that becomes tighter, and the picks under it."""

    name: str  # latency or size
    apart: float  # share by which the figure of another file must be below that of the pick
    feasible: Sequence[Evaluation]
    chooser: Chooser

    @classmethod
    def list_limits(
        cls, feasible: Sequence[Evaluation], pick: Evaluation, chooser: Chooser
    ) -> tuple[TightenedLimit, ...]:
        """Return the limits of latency and size of a decision among ``feasible`` evaluations."""
        apart = APART
        if pick.latency is not None and pick.latency.provenance is Provenance.PREDICTED:
            apart = PREDICTED_APART
        return (cls("latency", apart, feasible, chooser), cls("size", APART, feasible, chooser))

    @property
    def label(self) -> str:
        """The limit in words."""
        return "latency budget (p90)" if self.name == "latency" else "size budget"

    def describe_range(self, change: ChangedPick) -> str:
        """Return the limit and the range of budgets in words."""
        # Rounded inwards, so that what is said of the range is true of each budget in it.
        ends = round_up(change.low), round_down(change.high)
        if self.name == "latency":
            texts = [show_ms(end) for end in ends]
        else:
            texts = [show_size_limit(end) for end in ends]
        if ends[0] >= ends[1]:
            return f"the {self.label} is below {texts[1]}"
        number, unit = texts[0].split()
        # A unit that both ends have is said once.
        low = number if unit == texts[1].split()[1] else texts[0]
        return f"the {self.label} is between {low} and {texts[1]}"

    def find_change(self, pick: Evaluation) -> ChangedPick | None:
        """Return the first other file that a tighter limit makes the pick; None without one."""
        told_apart = self._read_figure(pick) * (1 - self.apart)
        high = self._read_figure(pick)
        other = self._pick_below(high)
        # Below its own figure, the file may stay the pick with another number of threads.
        while other is not None and (
            other.variant == pick.variant or self._read_figure(other) > told_apart
        ):
            high = self._read_figure(other)
            other = self._pick_below(high)
        if other is None:
            return None
        return ChangedPick(other, self._find_least(other, high), high)

    def _find_least(self, other: Evaluation, high: float) -> float:
        """Return the least budget below ``high`` for which the file of ``other`` is the pick."""
        low = high
        last: Evaluation | None = other
        while last is not None and last.variant == other.variant:
            low = self._read_figure(last)
            last = self._pick_below(low)
        # A tighter limit makes each saving count more, which may change the pick before.
        tightest = self._pick_within(low)
        if tightest is not None and tightest.variant == other.variant:
            return low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            there = self._pick_within(middle)
            if there is not None and there.variant == other.variant:
                high = middle
            else:
                low = middle
        return high

    def _pick_below(self, limit: float) -> Evaluation | None:
        """Return the pick of what is below a limit, which is the scale, too; None for nothing."""
        return self._choose([e for e in self.feasible if self._read_figure(e) < limit], limit)

    def _pick_within(self, limit: float) -> Evaluation | None:
        return self._choose([e for e in self.feasible if self._read_figure(e) <= limit], limit)

    def _choose(self, admitted: Sequence[Evaluation], limit: float) -> Evaluation | None:
        if not admitted:
            return None
        preference = self.chooser.preference
        # A whole limit counts like a point of accuracy, so another limit is another scale.
        if self.name == "latency":
            preference = replace(preference, scale_ms=limit)
        else:
            preference = replace(preference, scale_bytes=limit)
        return replace(self.chooser, preference=preference).pick(admitted)

    def _read_figure(self, evaluation: Evaluation) -> float:
        return evaluation.p90_ms if self.name == "latency" else evaluation.size_bytes
