"""Why not this configuration? The list of rules, and each rule of its own."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.catalog import Catalogue
from advisor.compression import Recipe, lighter_recipes
from advisor.compression._recipes.base import Edit
from advisor.core import Limits
from advisor.engine import resolve
from advisor.engine._pipeline.rule import Known, RuleNeeds, Rules
from advisor.engine._rules import explain_licence, explain_needless, explain_size, explain_slowness, rules_of
from advisor.engine._space.skipped import rule_out
from advisor.engine._targets.device_prediction import CardPredictor, DevicePredictor
from advisor.engine._targets.target_devices import select_targets
from tests.builders import RUNTIME, configuration
from tests.engine.plans import asking, planned
from tests.tables import with_cases

CARDS = Catalogue.load().select(["mobilenet_v1_0.25_224", "inception_v3_299"])
PLAN = planned(CARDS, ("float32", "int8"), (1,), ("head",), RUNTIME)
ALWAYS = [RuleNeeds.PLAN, RuleNeeds.PLAN, RuleNeeds.LIGHTER]
NAMES = ("int8", "mixed_int8", "qat_int8")
drops = st.one_of(st.none(), st.floats(-5, 20))
results = st.dictionaries(st.sampled_from(NAMES), drops)
limits = st.floats(0, 5)


def rules(**options: object) -> Rules:
    question = resolve(options).question
    return rules_of(asking(PLAN, question), CardPredictor(select_targets(question), {}, DevicePredictor()))


def asked(**options: object) -> list[RuleNeeds]:
    """Return what the rules of a question need, in the order of the list."""
    return [rule.needs for rule in rules(**options).listed]


def test_other_devices_are_predicted_and_a_search_on_images_looks_at_the_float_backbone_first(tmp_path: Path) -> None:
    images = {"data": str(tmp_path)}
    first, lighter = ALWAYS[:-1], ALWAYS[-1]
    assert asked(budget="50ms") == asked(**images) == ALWAYS
    assert asked(**images, budget="50ms") == [*first, RuleNeeds.BACKBONE, lighter]
    assert asked(**images, budget="50ms", device="raspberry-pi-4") == [*first, RuleNeeds.PREDICTION, lighter]
    both = [*first, RuleNeeds.PREDICTION, RuleNeeds.BACKBONE, lighter]
    assert asked(**images, budget="50ms", device="host,raspberry-pi-4") == both


def test_a_rule_that_rejects_everything_before_the_search_rules_nothing_out() -> None:
    def names(size: str) -> set[str]:
        return {each.card for each in rule_out(PLAN, rules(size_budget=size))}

    assert names("3MB") == {"inception_v3_299"}
    assert names("1kB") == set()


def test_a_card_without_an_accepted_licence_or_too_large_by_its_parameters_is_not_planned() -> None:
    def reason(compression: str) -> str:
        return explain_size(PLAN, configuration("mobilenet_v1_0.25_224", compression), Known(Limits(size_bytes=1e6)))

    assert reason("float32").endswith("more than the size budget 1.0 MB")
    assert reason("int8") == ""
    card = PLAN.cards[0]
    for licence, refused in ((card.licence.lower(), False), ("gpl-3.0", True)):
        known = Known(Limits(licence=(licence,)))
        assert bool(explain_licence(PLAN, configuration(card.name), known)) == refused


@pytest.mark.parametrize(("backbone_ms", "threads", "slow"), [(301.0, 1, True), (301.0, 2, False), (299.0, 1, False)])
def test_a_backbone_six_times_over_the_budget_is_not_trained(backbone_ms: float, threads: int, slow: bool) -> None:
    known = Known(Limits(latency_ms=50.0), backbone_ms=backbone_ms)
    assert bool(explain_slowness(threads, configuration(), known)) == slow
    assert not explain_slowness(threads, configuration(), replace(known, limits=Limits()))


def _recipes() -> dict[str, Recipe]:
    found: dict[str, Recipe] = {}
    for before, name in zip(("", *NAMES), NAMES, strict=False):
        found[name] = Edit(name, bytes, "")
        found[name].after = before
    return found


def _objection(name: str, drops: dict[str, float | None], limit: float | None, named: Collection[str] = ()) -> str:
    lighter = lighter_recipes(name, _recipes(), named)
    known = Known(Limits(max_drop_points=limit), lighter=lighter, drops=drops)
    return explain_needless(configuration(compression=name), known)


@given(results, limits)
def test_a_heavier_recipe_is_tried_if_no_lighter_holds_or_by_name(found: dict[str, float | None], limit: float) -> None:
    assert _objection("int8", found, None) == ""
    assert lighter_recipes("qat_int8", _recipes(), {"qat_int8"}) == ()
    assert _objection("qat_int8", found, limit, {"qat_int8"}) == ""
    for place, name in enumerate(NAMES):
        held = [before for before in NAMES[:place] if (drop := found.get(before)) is not None and drop <= limit]
        if held:
            assert "keeps within" in _objection(name, found, limit)


@given(limits)
def test_a_heavier_recipe_is_tried_where_every_lighter_one_missed(limit: float) -> None:
    missed: dict[str, float | None] = dict.fromkeys(NAMES, limit + 1.0)
    assert [_objection(name, missed, limit) for name in NAMES] == ["", "", ""]


def test_the_lightest_recipe_of_the_search_comes_first() -> None:
    recipes = _recipes()
    assert lighter_recipes("qat_int8", recipes) == ("int8", "mixed_int8")
    del recipes["mixed_int8"]
    assert lighter_recipes("qat_int8", recipes) == ("int8",)


@with_cases
def test_the_reason_is_said(limit: float | None, found: dict[str, float | None], reason: str) -> None:
    assert reason in _objection("mixed_int8", found, limit)
