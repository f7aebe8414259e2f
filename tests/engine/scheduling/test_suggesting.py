"""What is expected of candidates that were not evaluated: latency, size, seconds; and the sampler's table."""

from dataclasses import replace

import pytest

from advisor.catalog import Catalogue
from advisor.core import Evaluation, Provenance, Quantity, Status
from advisor.engine._pipeline.cost import rough_ms, rough_size
from advisor.engine._scheduling.suggesting import NOTHING_LEFT_S, CostEstimates, also_shown, candidate_table
from advisor.engine._space.plan import Plan
from tests.builders import RUNTIME, evaluation, present
from tests.engine.plans import planned

CARD, OTHER = "mobilenet_v2_1.0_224", "squeezenet_1.1_227"


@pytest.fixture(scope="module")
def plan() -> Plan:
    recipes = ("float32", "float16", "int8")
    return planned(Catalogue.load().select([CARD, OTHER]), recipes, (1, 2), ("head",), RUNTIME, images=100, holdout=20)


def measured(plan: Plan, recipe: str, threads: int, slower: float, larger: float) -> Evaluation:
    card = next(card for card in plan.cards if card.name == CARD)
    return replace(
        evaluation(),
        configuration=plan.configuration(CARD, recipe, threads),
        latency=Quantity(slower * rough_ms(card, recipe, threads), "ms", Provenance.MEASURED),
        size=Quantity(larger * rough_size(card, recipe), "bytes", Provenance.MEASURED),
    )


def test_what_was_measured_is_taken_and_other_thread_counts_have_its_size_and_cost_nothing_more(plan: Plan) -> None:
    estimates, one = CostEstimates(plan), measured(plan, "float32", 1, slower=3.0, larger=0.5)
    assert estimates.add(one) == CARD
    known, other = (estimates.of(CARD)[plan.configuration(CARD, "float32", threads)] for threads in (1, 2))
    assert (known.latency_ms, known.size_bytes) == (present(one.latency).value, present(one.size).value)
    assert (other.size_bytes, other.cost_s) == (known.size_bytes, NOTHING_LEFT_S)


def test_other_recipes_are_off_by_as_much(plan: Plan) -> None:
    estimates, card = CostEstimates(plan), plan.cards[0]
    estimates.add(measured(plan, "float32", 1, slower=2.0, larger=0.5))
    estimates.add(measured(plan, "float16", 1, slower=8.0, larger=0.5))
    int8 = estimates.of(CARD)[plan.configuration(CARD, "int8", 2)]
    assert int8.latency_ms == pytest.approx(4.0 * rough_ms(card, "int8", 2))
    assert int8.size_bytes == pytest.approx(0.5 * rough_size(card, "int8"))


def test_the_samplers_table_is_corrected_for_cards_that_were_seen_only(plan: Plan) -> None:
    estimates = CostEstimates(plan)
    estimates.add(measured(plan, "float32", 1, slower=3.0, larger=0.5))
    before, after = candidate_table(plan, CostEstimates(plan)), candidate_table(plan, estimates)
    for old, new in zip(before, after, strict=True):
        assert (old == new) == (old.params["card"] == OTHER)
        assert new.params == old.params


def test_a_card_whose_shared_stages_are_done_costs_less_and_a_failure_says_nothing(plan: Plan) -> None:
    failed = Evaluation(plan.configuration(CARD, "float32", 1), Status.FAILED, reason="crashed")
    assert CostEstimates(plan).add(failed) is None
    table = candidate_table(plan, CostEstimates(plan))
    assert [plan.configuration(**candidate.params) for candidate in table] == list(plan.configurations())  # type: ignore[arg-type]
    estimates = CostEstimates(plan)
    estimates.add(measured(plan, "float32", 1, slower=1.0, larger=1.0))
    before = dict(zip(plan.configurations(), candidate_table(plan, CostEstimates(plan)), strict=True))
    int8 = plan.configuration(CARD, "int8", 1)
    assert estimates.of(CARD)[int8].cost_s < before[int8].cost_s


def test_a_form_tells_the_accuracy_of_the_float_forms_that_are_searched_too() -> None:
    shown = also_shown(evaluation(compression="int8", accuracy=80.0, drop=1.5), ("float32", "float16", "int8"))
    assert [(each.compression, value) for each, value in shown] == [("float32", 81.5), ("float16", 81.5)]
    assert also_shown(evaluation(compression="float32", accuracy=80.0), ("float32", "int8")) == []
