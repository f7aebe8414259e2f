"""Decide which recipes are worth trying on a card: a heavier one only if the lighter ones lose too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.compression.recipes.base import Recipe


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

    def objection(self, name: str, drops: Mapping[str, float | None]) -> str:
        """Return why ``name`` is not worth trying; empty if it is.

        Args:
            name: a recipe of the search.
            drops: points that each recipe lost against float32, None if its file could not be scored; a recipe that
                gave no file has no entry.
        """
        lighter = self.waits_for(name)
        if not lighter:
            return ""
        if self.max_drop_points is None:
            return f"no --max-drop was given, so {lighter[0]} cannot miss it"
        for before in lighter:
            drop = drops.get(before)
            if drop is not None and drop <= self.max_drop_points:
                return f"{before} keeps within --max-drop already: it lost {drop:.1f} points"
        if not any(before in drops for before in lighter):
            return f"{lighter[-1]} gave no file to improve on"
        return ""
