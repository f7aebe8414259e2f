"""Decide which recipes are worth trying on a card: a heavier one only if the lighter ones lose too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.compression.recipes.base import Recipe


@dataclass(frozen=True)
class RecipeResult:
    """The result of a lighter recipe on the same card.

    Attributes:
        drop_points: points of the task's metric that it lost against float32; None if it could not be scored.
        ok: it gave a file; False if it failed or was skipped.
    """

    drop_points: float | None
    ok: bool = True


@dataclass(frozen=True)
class Escalation:
    """The order in which heavier recipes follow lighter ones.

    Attributes:
        recipes: the recipes of a search, by name.
        max_drop_points: points that a file may lose against float32; None for no limit.
        named: recipes that the user named; these are always tried.
    """

    recipes: Mapping[str, Recipe]
    max_drop_points: float | None
    named: frozenset[str] = frozenset()

    def waits_for(self, name: str) -> tuple[str, ...]:
        """Return the lighter recipes whose results decide whether ``name`` is tried, the lightest first."""
        found: list[str] = []
        if name in self.named:
            return ()
        before = self.recipes[name].after
        while before in self.recipes and before not in found:
            found.insert(0, before)
            before = self.recipes[before].after
        return tuple(found)

    def objection(self, name: str, results: Mapping[str, RecipeResult]) -> str:
        """Return why ``name`` is not worth trying; empty if it is.

        Args:
            name: a recipe of the search.
            results: the result of every recipe that it waits for.
        """
        waited = self.waits_for(name)
        if not waited:
            return ""
        if self.max_drop_points is None:
            return f"no --max-drop was given, so {waited[0]} cannot miss it"
        for before in waited:
            result = results[before]
            if result.ok and result.drop_points is not None and result.drop_points <= self.max_drop_points:
                return f"{before} keeps within --max-drop already: it lost {result.drop_points:.1f} points"
        if not any(results[before].ok for before in waited):
            return f"{waited[-1]} gave no file to improve on"
        return ""
