"""Which recipes are worth trying on a card: the lightest first, a heavier one only on the evidence of a lighter one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.compression.recipes.base import Recipe


@dataclass(frozen=True)
class Outcome:
    """How a lighter recipe ended on the same card.

    Attributes:
        drop_points: points of the task's metric that it lost against float32; None where it could not be scored.
        ok: it gave a file; not so where it failed or was skipped.
    """

    drop_points: float | None
    ok: bool = True


@dataclass(frozen=True)
class Escalation:
    """The order of escalation.

    Attributes:
        recipes: those of a search, by name.
        max_drop_points: what a form may lose against float32; None where no limit was given.
        asked: recipes that the user named, which are tried in any case.
    """

    recipes: Mapping[str, Recipe]
    max_drop_points: float | None
    asked: frozenset[str] = frozenset()

    def waits_for(self, name: str) -> tuple[str, ...]:
        """Return the lighter recipes of the search whose outcomes decide about ``name``, the lightest first."""
        found: list[str] = []
        if name in self.asked:
            return ()
        before = self.recipes[name].after
        while before in self.recipes and before not in found:
            found.insert(0, before)
            before = self.recipes[before].after
        return tuple(found)

    def objection(self, name: str, outcomes: Mapping[str, Outcome]) -> str:
        """Return why ``name`` is not worth trying, or nothing where it is.

        Args:
            name: a recipe of the search.
            outcomes: of every recipe that it waits for.
        """
        waited = self.waits_for(name)
        if not waited:
            return ""
        if self.max_drop_points is None:
            return f"no --max-drop was given that {waited[0]} could miss"
        for before in waited:
            outcome = outcomes[before]
            if outcome.ok and outcome.drop_points is not None and outcome.drop_points <= self.max_drop_points:
                return f"{before} keeps within --max-drop already: it lost {_points(outcome)}"
        if not any(outcomes[before].ok for before in waited):
            return f"{waited[-1]} gave no form to do better than"
        return ""


def _points(outcome: Outcome) -> str:
    return f"{outcome.drop_points:.1f} points"
