"""The search space, what to expect of it before anything ran, and results that earlier searches have kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from advisor.catalog import Card, Catalogue, fetch_weights
from advisor.compression import RECIPES
from advisor.core import Provenance, Quantity
from advisor.core._choosing import dominates
from advisor.engine import resolve
from advisor.engine._latency_estimates import latency_estimates
from advisor.engine._pipeline.cost import rough_latency_ms, rough_size
from advisor.engine._pipeline.lookup import CachedCards, CachedResults
from advisor.engine._space.plan import Plan
from advisor.engine._space.prior_accuracy import MIDDLING, estimate_top1, most_promising_first, prior_accuracy
from advisor.engine._space.resolved import Candidates
from advisor.engine._space.resolving import resolve_parts
from advisor.isolation import ChildPool
from tests.engine.plans import changed, planned
from tests.makers.searches import SMALLEST, Searched

FORM = ("head", "float32")
TIMED, NEW = "mobilenet_v2_1.0_224", "efficientnet_lite0_224"


@pytest.fixture(scope="module")
def cards() -> tuple[Card, ...]:
    return Catalogue.load().select(["mobilenet_v2_1.0_224", "efficientnet_lite0_224", "squeezenet_1.1_227"])


def plan(cards: tuple[Card, ...]) -> Plan:
    return planned(cards, ("float32", "int8"), (1, 2), ("head",), "ai-edge-litert==2.3.0", images=100, holdout=20)


def test_the_space_is_every_card_recipe_and_thread_count_once(cards: tuple[Card, ...]) -> None:
    configurations = plan(cards).configurations()
    assert len(configurations) == len(set(configurations)) == plan(cards).size == 12


def test_the_hold_out_takes_the_time_of_the_most_expensive_card_that_was_begun(cards: tuple[Card, ...]) -> None:
    by_work = [card.name for card in sorted(cards, key=lambda card: card.macs)]
    light, heavy = plan(cards).judging_s(by_work[:1]), plan(cards).judging_s(by_work)
    assert light < plan(cards).judging_s() < heavy == plan(cards).judging_s(by_work[-1:])
    assert changed(plan(cards), holdout=0).judging_s() == 0.0


def test_a_published_figure_of_the_form_is_its_prior_and_a_smaller_form_costs_less(cards: tuple[Card, ...]) -> None:
    lite0, v2, _ = cards
    assert prior_accuracy(v2, "float32") == 71.8
    assert prior_accuracy(lite0, "int8") == 74.4
    assert prior_accuracy(lite0, "float16") == 75.1
    assert rough_size(v2, "int8") < rough_size(v2, "float16") < rough_size(v2, "float32")
    assert rough_latency_ms(v2, "int8") < rough_latency_ms(v2, "float32")


def test_more_images_cost_more_and_a_rung_above_makes_beginning_a_card_no_cheaper(cards: tuple[Card, ...]) -> None:
    many = changed(plan(cards), images=10_000)
    assert many.costs.variant_s(cards[0], FORM) > plan(cards).costs.variant_s(cards[0], FORM)
    heads = changed(plan(cards), trainings=("head",), images=2000, validation=400)
    climbing = changed(heads, trainings=("head", "finetune_top"))
    assert climbing.costs.variant_s(cards[0], ("head", "int8")) == heads.costs.variant_s(cards[0], ("head", "int8"))


@given(st.permutations(range(6)))
def test_the_order_of_the_catalogue_does_not_say_which_cards_are_promising(order: list[int]) -> None:
    some = list(Catalogue.load().values())[:6]
    assert {card.name for card in most_promising_first([some[i] for i in order])} == {card.name for card in some}
    assert most_promising_first([some[i] for i in order])[0] == most_promising_first(some)[0]


@given(st.lists(st.tuples(st.integers(60, 63), st.integers(1, 4)), max_size=12))
def test_cards_are_ordered_front_by_front_and_equal_ones_as_they_came(figures: list[tuple[int, int]]) -> None:
    (one,) = Catalogue.load().select(["squeezenet_1.1_227"])
    costs = {str(place): (-top1, macs) for place, (top1, macs) in enumerate(figures)}
    published = {
        name: (replace(one.published[0], precision="float32", top1=-loss),) for name, (loss, _) in costs.items()
    }
    rest = [replace(one, name=name, macs=macs, published=published[name]) for name, (_, macs) in costs.items()]
    found, expected = [card.name for card in most_promising_first(rest)], list[str]()
    while costs:
        front = [name for name, own in costs.items() if not any(dominates(other, own) for other in costs.values())]
        expected += sorted(front, key=lambda name: costs[name])
        costs = {name: own for name, own in costs.items() if name not in front}
    assert found == expected


def test_where_the_published_accuracy_says_little_the_first_cards_are_spread_over_their_sizes() -> None:
    cards = Catalogue.load()
    front = [cards[name] for name in ("mobilenet_v2_0.35_96", "mobilenet_v2_0.5_160", "mobilenet_v2_1.0_224")]
    assert most_promising_first(front) == tuple(reversed(front))
    assert most_promising_first(front, spread=True) == (front[1], front[2], front[0])


def test_every_trial_of_a_fine_tuning_is_paid_for(cards: tuple[Card, ...]) -> None:
    tuned = changed(plan(cards), trainings=("head", "finetune_top"), images=2000, validation=400)
    card = cards[0]
    once, thrice = (changed(tuned, tunings=count).costs.of_card(card).trained_s["finetune_top"] for count in (0, 3))
    assert 2 < thrice / once < 3


def test_a_card_without_figures_is_expected_to_do_as_cards_of_its_size_do() -> None:
    card = replace(Catalogue.load()["mobilenet_v2_1.0_224"], published=())
    assert prior_accuracy(card, "float32") == pytest.approx(71.8, abs=8.0)
    assert 0.0 < prior_accuracy(card, "float32") - prior_accuracy(card, "int8") < 2.0
    smaller = replace(card, params=card.params // 4, macs=card.macs // 4, input_size=112)
    assert estimate_top1(smaller) < estimate_top1(card) - 5.0
    assert estimate_top1(replace(card, macs=0)) == MIDDLING, "of unknown size"


def test_a_training_that_was_not_done_is_not_begun(
    with_images: Searched, warm_cache: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a child was asked to work")

    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    card = Catalogue.load()[SMALLEST]
    weights = fetch_weights(card)
    monkeypatch.setattr(ChildPool, "call", refuse)
    request = resolve({"data": str(photos), "candidates": [SMALLEST], "training": ["finetune_top", "finetune_all"]})
    resolved = resolve_parts(request, lambda _: None)
    chosen = Candidates((card,), {SMALLEST: weights}, {})
    plan = resolved.plan(chosen)
    materials = resolved.materials(chosen, plan)
    done = {stage.name for stage in CachedCards([card], plan.workload, materials).list_done()}
    assert with_images.code == 0
    assert {"convert", "features", "head", "refit", "compress", "score"} <= done
    assert not {"finetune_top", "finetune_all"} & done
    assert not CachedCards([card], plan.workload, replace(materials, weights={})).list_done()


def test_int8_and_float_are_predicted_from_their_timings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    recipes = tuple(recipe.name for recipe in RECIPES)
    plan = planned(Catalogue.load().select([TIMED, NEW]), recipes, (1,), ("head",), "ai-edge-litert==2.3.0")
    timings = {("float32", 1): 3.2, ("int8", 1): 1.5}
    latency = {key: Quantity(value, "ms", Provenance.MEASURED) for key, value in timings.items()}
    known = {TIMED: CachedResults(latency=latency, latency_p90=latency), NEW: CachedResults()}
    estimates = latency_estimates(plan, known, None)
    expected = {recipe: found.latency for (card, recipe, _), found in estimates.items() if card == NEW}
    rough = {recipe for recipe, found in expected.items() if found.provenance is not Provenance.PREDICTED}
    assert rough == {"dynamic_int8", "weight_int4", "int16x8", "mixed_int8"}
    assert expected["qat_int8"].value == expected["int8"].value < expected["rounded"].value
