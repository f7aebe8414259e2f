from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.compression.recipes.base import Edit, Recipe
from advisor.compression.recipes.escalation import Escalation

NAMES = ("int8", "mixed_int8", "qat_int8")


def _recipes() -> dict[str, Recipe]:
    found: dict[str, Recipe] = {}
    for before, name in zip(("", *NAMES), NAMES, strict=False):
        found[name] = Edit(name, bytes, "")
        found[name].after = before
    return found


drops = st.one_of(st.none(), st.floats(-5, 20))
results = st.dictionaries(st.sampled_from(NAMES), drops)
limits = st.floats(0, 5)


@given(results, limits)
def test_a_heavier_recipe_is_never_tried_where_a_lighter_one_holds(
    found: dict[str, float | None], limit: float
) -> None:
    ladder = Escalation(_recipes(), limit)
    for place, name in enumerate(NAMES):
        held = [before for before in NAMES[:place] if (drop := found.get(before)) is not None and drop <= limit]
        if held:
            assert "keeps within" in ladder.objection(name, found)


@given(limits)
def test_a_heavier_recipe_is_tried_where_every_lighter_one_missed(limit: float) -> None:
    missed: dict[str, float | None] = dict.fromkeys(NAMES, limit + 1.0)
    assert [Escalation(_recipes(), limit).objection(name, missed) for name in NAMES] == ["", "", ""]


@given(results)
def test_the_lightest_needs_no_evidence(found: dict[str, float | None]) -> None:
    assert Escalation(_recipes(), None).objection("int8", found) == ""


@given(results, st.one_of(st.none(), limits))
def test_what_the_user_named_is_tried(found: dict[str, float | None], limit: float | None) -> None:
    ladder = Escalation(_recipes(), limit, named=frozenset({"qat_int8"}))
    assert ladder.waits_for("qat_int8") == ()
    assert ladder.objection("qat_int8", found) == ""


def test_the_lightest_comes_first() -> None:
    assert Escalation(_recipes(), 1.0).waits_for("qat_int8") == ("int8", "mixed_int8")


def test_only_recipes_of_the_search_are_waited_for() -> None:
    recipes = _recipes()
    del recipes["mixed_int8"]
    assert Escalation(recipes, 1.0).waits_for("qat_int8") == ()


@pytest.mark.parametrize(
    ("limit", "found", "reason"),
    [
        (None, {"int8": 9.0}, "no --max-drop"),
        (1.0, {"int8": 0.4}, "it lost 0.4 points"),
        (1.0, {}, "no file to improve on"),
    ],
)
def test_the_reason_is_said(limit: float | None, found: dict[str, float | None], reason: str) -> None:
    assert reason in Escalation(_recipes(), limit).objection("mixed_int8", found)
