"""Which cards a default search fine-tunes, when, and what it says of the others."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.cost import rough_ms, rough_size
from advisor.engine.scheduling.promotion import FrontBound
from advisor.engine.scheduling.scheduler import HEADS_SHARE, NO_TIME, OVER_ALLOWANCE, Allowance, Scheduler, TimeLimit
from advisor.engine.scheduling.suggesting import NOTHING_LEFT_S, CostEstimates, also_shown, candidate_table
from advisor.engine.space.plan import Plan
from tests.builders import RUNTIME, evaluation, present
from tests.engine.plans import changed, planned
from tests.engine.scheduling.test_scheduler import BEST, CARDS, LAST, PLAN, Search, alike

CACHED = "finetune_cached"
DEFAULT = changed(PLAN, trainings=("head", CACHED), images=2000, validation=400, tuning_limited=True)


class Allowed(Search):
    """A search of the default recipes, in which the first of the possible cards would be picked."""

    def __init__(self, plan: Plan = DEFAULT, left_s: float | None = None) -> None:
        super().__init__(plan=plan)
        self.left_s = left_s
        self.study.halving.reduction_factor = 3 if left_s is None else 1
        limit = None if left_s is None else TimeLimit(600.0, lambda: self.left_s or 0.0)
        allowance = Allowance(plan, self.bound, self.favourite, limit)
        self.scheduler = Scheduler(self.study, self.bound, plan, 100, 2, allowance)

    def favourite(self, cards: Collection[str]) -> str | None:
        """Return the first card in the order of the module's cards."""
        return min(cards, key=CARDS.index)

    def finish(self) -> None:
        """End everything that starts."""
        while self.running:
            self.end(self.running[0])
            self.start()

    @property
    def tuned(self) -> list[str]:
        """The cards that were fine-tuned, in order."""
        return list(dict.fromkeys(each.card for each in self.started if each.training == CACHED))


def _costing(plan: Plan, cards: int) -> Plan:
    """Return the plan with time for the fine-tuning of its first cards."""
    seconds = [plan.costs.of_card(plan.cards_by_name[name]).trained_s[CACHED] for name in CARDS[:cards]]
    limited = replace(plan)
    limited.__dict__["tuning_s"] = sum(seconds) + 1.0
    return limited


def test_without_a_limit_fine_tuning_waits_for_every_head() -> None:
    search = Allowed(_costing(DEFAULT, 2))
    search.end_heads(alike, kept=LAST)
    assert not search.tuned
    search.end(LAST)
    search.start()
    assert search.tuned == [BEST, CARDS[1]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_cards_are_tuned_as_their_expected_seconds_allow_the_pick_first(count: int) -> None:
    search = Allowed(_costing(DEFAULT, count))
    search.end_heads(alike)
    search.finish()
    assert search.tuned == list(CARDS[:count])


@pytest.mark.parametrize("count", [1, 2])
def test_the_time_left_counts_only_the_cards_that_fit(count: int) -> None:
    search = Allowed(_costing(DEFAULT, count))
    search.end_heads(alike, kept=LAST)
    assert not search.scheduler.waiting
    search.end(LAST)
    search.start()
    assert {each.card for each in search.scheduler.waiting} == set(CARDS[count:])
    assert {each.training for each in search.scheduler.waiting} == {CACHED}


def test_what_is_not_tuned_says_how_to_tune_it() -> None:
    search = Allowed(_costing(DEFAULT, 1))
    search.end_heads(alike)
    search.finish()
    refused = search.scheduler.refuse_rest()
    assert {each.card for each, _ in refused} == set(CARDS[1:])
    assert {reason for _, reason in refused} == {OVER_ALLOWANCE}
    assert len(search.started) + len(refused) == DEFAULT.size


def test_a_card_that_cannot_win_is_not_tuned_whatever_time_is_left() -> None:
    search = Allowed()
    search.end_heads(lambda card: (95.0, 5.0) if card == BEST else (60.0, 20.0))
    search.finish()
    assert search.tuned == [BEST]
    assert all(BEST in reason for _, reason in search.scheduler.refuse_rest())


def _limited(
    plan: Plan = DEFAULT, left_s: float = 600.0, observed: float = 1.0, limit_ms: float | None = None
) -> Allowance:
    """Return the allowance of a search with a time limit of ten minutes, which has the result of another card."""
    limit, bound = TimeLimit(600.0, lambda: left_s, lambda: observed), FrontBound(Budget(latency_ms=limit_ms))
    bound.add([evaluation("another card")])
    return Allowance(plan, bound, lambda _: None, limit)


def _head(card: str, form: str = "float32", plan: Plan = DEFAULT) -> Configuration:
    return plan.configuration(card, form, plan.threads[0], "head")


def test_without_a_time_limit_no_card_comes_first() -> None:
    assert Allowance(DEFAULT, FrontBound(Budget()), lambda _: None).first == frozenset()


def test_the_first_heads_are_those_of_different_architectures() -> None:
    first = _limited().first
    families = [DEFAULT.cards_by_name[name].family for name in first]
    assert 2 <= len(first) <= 3
    assert len(set(families)) == len(families)


def test_a_limit_that_is_too_short_for_any_fine_tuning_begins_with_the_most_promising_heads() -> None:
    search = Allowed(left_s=45.0)
    assert not _limited(left_s=45.0)._first(1.0, tuned=True)
    search.start()
    first = {each.card for each in search.started}
    assert first
    assert {each.compression for each in search.started} == {"float32"}
    for each in list(search.running):
        search.end(each)
    search.start()
    assert {each.training for each in search.started} == {"head"}
    assert not search.tuned


def test_of_one_card_the_head_comes_first_and_then_its_fine_tuning() -> None:
    search = Allowed(replace(DEFAULT, cards=DEFAULT.cards[:1]), left_s=600.0)
    search.start()
    (head,) = search.started
    assert (head.training, head.compression) == ("head", "float32")
    search.end(head)
    search.start()
    assert search.tuned == [head.card]


def test_fewer_heads_come_first_on_a_slow_machine_and_none_over_the_latency_budget() -> None:
    few = changed(DEFAULT, images=160, validation=40)
    assert _limited(few, left_s=150.0).first, "two hundred images leave time for fine-tuning"
    assert len(_limited(observed=3.0).first) < len(_limited().first)
    assert _limited(limit_ms=1e-3).first == frozenset()


def test_within_a_limit_fine_tuning_begins_after_the_float_files_of_the_first_heads() -> None:
    search = Allowed(left_s=600.0)
    search.start()
    first = search.scheduler._allowance.first  # type: ignore[union-attr]
    assert {(each.card, each.compression) for each in search.started} == {(card, "float32") for card in first}
    while heads := [each for each in search.running if each.training == "head" and each.card in first]:
        assert not search.tuned
        search.end(heads[0], *alike(heads[0].card))
    search.start()
    assert len(search.tuned) == 1


def test_the_card_that_is_expected_to_be_best_after_fine_tuning_is_tuned_not_the_cheapest() -> None:
    search, first = Allowed(left_s=600.0), _limited().first
    best, *others = sorted(first)
    search.start()
    for each in list(search.running):
        search.end(each, *((90.0, 12.0) if each.card == best else (80.0, 2.0)))
    assert others
    search.start()
    assert search.tuned == [best]


def test_a_further_card_is_tuned_in_the_second_half_of_a_limit() -> None:
    search = Allowed(left_s=600.0)
    search.end_heads(alike)
    search.finish()
    assert len(search.tuned) > 1
    assert HEADS_SHARE == 0.5


def test_what_does_not_end_within_the_limit_is_not_begun_and_says_so() -> None:
    allowance = _limited(left_s=8.0)
    assert allowance.no_time(_head(BEST)) == NO_TIME
    assert _limited(left_s=200.0).no_time(_head(BEST)) == ""


def test_the_running_evaluations_leave_less_time_for_another_one() -> None:
    running = [_head(card) for card in CARDS[1:]]
    left_s = _limited()._seconds(running) + 1.0
    assert not _limited(left_s=left_s).no_time(running[0])
    assert _limited(left_s=left_s).no_time(_head(BEST), running) == NO_TIME


def test_int8_of_the_fine_tuned_card_always_has_time_and_its_other_forms_only_if_they_end() -> None:
    plan = replace(DEFAULT, workload=replace(DEFAULT.workload, recipes=("float32", "int8", "float16")))
    forms = {form: plan.configuration(BEST, form, 1, CACHED) for form in plan.recipes}
    late = {form: _limited(plan, left_s=100.0).no_time(each) for form, each in forms.items()}
    assert late == {"float32": "", "int8": "", "float16": NO_TIME}


def test_deferred_forms_are_evaluated_at_the_end_if_there_is_time_and_else_say_why_not() -> None:
    search = Allowed(left_s=600.0)
    search.end_heads(alike)
    search.finish()
    waiting = set(search.scheduler.deferred)
    assert waiting
    search.left_s = 0.5
    assert {reason for _, reason in search.scheduler.reject_deferred()} >= {NO_TIME}


def test_no_card_is_tuned_that_the_time_limit_would_end_at_once() -> None:
    search = Allowed(left_s=1.0)
    search.end_heads(alike)
    assert not search.tuned


CARD, OTHER = "mobilenet_v2_1.0_224", "squeezenet_1.1_227"


@pytest.fixture(scope="module")
def plan() -> Plan:
    recipes = ("float32", "float16", "int8")
    return planned(load_catalogue().select([CARD, OTHER]), recipes, (1, 2), ("head",), RUNTIME, images=100, holdout=20)


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


def test_a_card_whose_shared_stages_are_done_costs_less(plan: Plan) -> None:
    estimates = CostEstimates(plan)
    estimates.add(measured(plan, "float32", 1, slower=1.0, larger=1.0))
    before = dict(zip(plan.configurations(), candidate_table(plan, CostEstimates(plan)), strict=True))
    int8 = plan.configuration(CARD, "int8", 1)
    assert estimates.of(CARD)[int8].cost_s < before[int8].cost_s


def test_the_samplers_table_is_corrected_for_cards_that_were_seen_only(plan: Plan) -> None:
    estimates = CostEstimates(plan)
    estimates.add(measured(plan, "float32", 1, slower=3.0, larger=0.5))
    before, after = candidate_table(plan, CostEstimates(plan)), candidate_table(plan, estimates)
    for old, new in zip(before, after, strict=True):
        assert (old == new) == (old.params["card"] == OTHER)
        assert new.params == old.params


def test_a_failure_says_nothing(plan: Plan) -> None:
    failed = Evaluation(plan.configuration(CARD, "float32", 1), Status.FAILED, reason="crashed")
    assert CostEstimates(plan).add(failed) is None


def test_a_form_tells_the_accuracy_of_the_float_forms_that_are_searched_too() -> None:
    shown = also_shown(evaluation(compression="int8", accuracy=80.0, drop=1.5), ("float32", "float16", "int8"))
    assert [(each.compression, value) for each, value in shown] == [("float32", 81.5), ("float16", 81.5)]
    assert also_shown(evaluation(compression="float32", accuracy=80.0), ("float32", "int8")) == []


def test_the_samplers_table_has_a_candidate_for_each_configuration_in_order(plan: Plan) -> None:
    table = candidate_table(plan, CostEstimates(plan))
    assert [plan.configuration(**candidate.params) for candidate in table] == list(plan.configurations())  # type: ignore[arg-type]
