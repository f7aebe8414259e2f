"""Which cards are promoted to fine-tuning. Which cards and trainings may start, and when."""

import doctest
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.decision import front
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.scheduling import halving as module
from advisor.engine.scheduling.halving import REDUCTION_FACTOR, CardTraining, SuccessiveHalving
from advisor.engine.scheduling.promotion import STAGE, FrontBound, dominated
from advisor.engine.scheduling.study import constraints
from tests.builders import configuration, evaluation
from tests.engine.plans import planned

NO_LIMIT = Budget()


def tuned(configuration: Configuration, training: str = "finetune_top") -> Configuration:
    return replace(configuration, training=training)


def bound(*evaluations: Evaluation, budget: Budget = NO_LIMIT) -> FrontBound:
    made = FrontBound(budget)
    made.add(evaluations)
    return made


heads = st.lists(
    st.builds(
        lambda place, accuracy, latency, size: evaluation(
            f"card{place}", accuracy=accuracy, half_width=2.0, latency=latency, size=size
        ),
        st.integers(0, 9), st.floats(40, 99), st.floats(1, 90), st.floats(1e5, 9e7),
    ),
    min_size=1, max_size=8, unique_by=lambda e: e.configuration.card,
)  # fmt: skip


@given(heads)
def test_what_is_on_the_front_is_promoted(found: list[Evaluation]) -> None:
    made = bound(*found)
    for one in front(found):
        assert made.rejection_reason(tuned(one.configuration)) == ""


@given(heads)
def test_a_rejected_card_would_be_dominated_even_with_the_largest_gain(found: list[Evaluation]) -> None:
    made = bound(*found)
    for one in found:
        if made.rejection_reason(tuned(one.configuration)):
            upper = _value(one.accuracy) + 2.0
            reached = min(100.0, upper + made.largest_gain("finetune_top") * (100.0 - upper))
            assert any(
                _value(rival.accuracy) >= reached
                and _value(rival.latency) <= _value(one.latency)
                and _value(rival.size) <= _value(one.size)
                for rival in found
                if rival != one
            )


def _value(quantity: Quantity | None) -> float:
    assert quantity is not None
    return quantity.value


def test_a_search_that_goes_on_does_not_look_at_the_hold_out() -> None:
    refuted = replace(evaluation("one"), holdout_accuracy=Quantity(50.0, "%", Provenance.MEASURED, 49.0, 51.0, n=500))
    budget = Budget(min_accuracy=70.0)
    assert not budget.met_by(refuted)
    assert constraints(refuted, budget) == constraints(replace(refuted, holdout_accuracy=None), budget)
    assert "cannot meet the budget" not in bound(refuted, budget=budget).rejection_reason(tuned(refuted.configuration))


def test_a_head_without_an_error_is_not_fine_tuned() -> None:
    perfect = evaluation("perfect", accuracy=100)
    assert "every validation image" in bound(perfect).rejection_reason(tuned(perfect.configuration))


def test_a_card_far_behind_is_rejected_with_the_name_of_what_dominates_it() -> None:
    strong, weak = evaluation("strong", accuracy=92, latency=5, size=1e6), evaluation("weak", accuracy=70, latency=9)
    reason = bound(strong, weak).rejection_reason(tuned(weak.configuration))
    assert "strong head float32" in reason
    assert "86.2 %" in reason  # 70 + 3 of its interval + 49 % of the 27 points that are left, by the prior


def test_gains_of_this_run_decide_for_the_cards_that_follow() -> None:
    strong = evaluation("strong", accuracy=92, latency=5, size=1e6)
    weak = evaluation("weak", accuracy=85, half_width=2, latency=9)
    assert bound(strong, weak).rejection_reason(tuned(weak.configuration)) == ""
    others = [evaluation(f"other{place}", accuracy=80, latency=50, size=9e6) for place in range(6)]
    results = [replace(e, configuration=tuned(e.configuration)) for e in others]
    nothing = bound(strong, weak, *others, *results)
    assert nothing.largest_gain("finetune_top") < bound().largest_gain("finetune_top")
    assert nothing.rejection_reason(tuned(weak.configuration)) != ""


@pytest.mark.parametrize(("before", "after", "raised"), [(70, 82, True), (99, 97, False)])
def test_large_gains_raise_the_bound_and_added_errors_do_not(before: float, after: float, raised: bool) -> None:
    head, top = evaluation("card", accuracy=before), evaluation("card", accuracy=after)
    made = bound(head, replace(top, configuration=tuned(top.configuration)))
    assert (made.largest_gain("finetune_top") > bound().largest_gain("finetune_top")) is raised


def test_an_equal_share_of_errors_bounds_easy_and_hard_sets_alike() -> None:
    easy, hard = evaluation("easy", accuracy=90), evaluation("hard", accuracy=60)
    gains = [
        bound(
            one,
            replace(one, configuration=tuned(one.configuration), accuracy=Quantity(value, "%", Provenance.MEASURED)),
        )
        for one, value in ((easy, 92.0), (hard, 68.0))
    ]
    assert abs(gains[0].largest_gain("finetune_top") - gains[1].largest_gain("finetune_top")) < 1e-9


def test_a_slow_card_is_rejected_because_training_changes_no_latency() -> None:
    slow = evaluation("slow", latency=80)
    reason = bound(slow, budget=Budget(latency_ms=50)).rejection_reason(tuned(slow.configuration))
    assert "latency" in reason


def test_a_least_accuracy_that_fine_tuning_may_reach_rejects_nothing() -> None:
    close = evaluation("close", accuracy=80)
    assert bound(close, budget=Budget(min_accuracy=85)).rejection_reason(tuned(close.configuration)) == ""
    assert bound(close, budget=Budget(min_accuracy=95)).rejection_reason(tuned(close.configuration)) != ""


def test_a_head_that_failed_or_is_missing_is_the_reason() -> None:
    failed = Evaluation(evaluation().configuration, Status.FAILED, reason="crashed")
    assert bound(failed).rejection_reason(tuned(failed.configuration)) == "head was failed: crashed"
    assert bound().rejection_reason(tuned(failed.configuration)) != ""


def test_all_layers_build_on_the_top_or_on_the_head_where_the_top_was_left_out() -> None:
    head = evaluation("card", accuracy=80, half_width=1)
    top = replace(evaluation("card", accuracy=90, half_width=1), configuration=tuned(head.configuration))
    skipped = Evaluation(tuned(head.configuration), Status.SKIPPED, reason="no", stage=STAGE)
    strong = evaluation("strong", accuracy=95, latency=5, size=1e6)
    everything = tuned(head.configuration, "finetune_all")
    assert bound(head, top, strong).rejection_reason(everything) == ""
    assert bound(head, skipped, strong).rejection_reason(everything) != ""


def test_a_first_look_far_behind_rejects_the_head_in_every_form() -> None:
    def first(card: str, **figures: float) -> Evaluation:
        made = evaluation(card, **figures)  # type: ignore[arg-type]
        return replace(made, configuration=tuned(made.configuration, "head_subset"))

    strong, weak = first("strong", accuracy=92, latency=1, size=1e5), first("weak", accuracy=60, latency=9, size=4e6)
    close = first("close", accuracy=88, latency=9, size=4e6)
    made = bound(strong, weak, close)
    for compression in ("float32", "int8"):
        asked = replace(weak.configuration, training="head", compression=compression)
        assert "strong head_subset" in made.rejection_reason(asked)
        assert made.rejection_reason(replace(asked, card="close")) == ""


def test_a_first_look_that_is_slow_in_float_may_be_fast_enough_in_another_form() -> None:
    slow = evaluation("slow", latency=80)
    looked = replace(slow, configuration=tuned(slow.configuration, "head_subset"))
    made = bound(looked, budget=Budget(latency_ms=50))
    assert made.rejection_reason(replace(slow.configuration, compression="int8")) == ""
    assert made.rejection_reason(slow.configuration) != ""


def test_without_a_first_look_a_head_is_never_rejected() -> None:
    assert bound().rejection_reason(evaluation().configuration) == ""


def left_out(floats: Evaluation, rival: Evaluation, form: str) -> str:
    """Return why a form of a float32 file is not made beside a rival."""
    known = replace(bound(floats, rival).known, floats=floats)
    return dominated(replace(floats.configuration, compression=form), known)


def test_a_form_of_a_network_far_behind_is_left_out_with_the_name_of_what_is_better() -> None:
    slow = evaluation("slow", accuracy=80, latency=30, size=40e6)
    best = evaluation("best", "int8", accuracy=85, latency=5, size=4e6)
    reason = left_out(slow, best, form="int8")
    assert "best" in reason
    assert "0.5 points" in reason


def test_a_form_that_may_be_smaller_faster_or_more_accurate_than_the_rest_is_made() -> None:
    rival = evaluation("rival", "int8", accuracy=85, latency=5, size=4e6)
    for figures in ((84.6, 30, 40e6), (80, 12, 40e6), (80, 30, 19e6)):
        floats = evaluation("net", accuracy=figures[0], latency=figures[1], size=figures[2])
        assert not left_out(floats, rival, form="int8")


def test_a_form_with_float_arithmetic_is_hardly_faster_than_float32() -> None:
    rival = evaluation("rival", "int8", accuracy=85, latency=5, size=1e6)
    floats = evaluation("net", accuracy=80, latency=7, size=40e6)
    assert left_out(floats, rival, form="weight_int8")
    assert not left_out(floats, rival, form="int8")


def test_where_a_form_was_left_out_fine_tuning_builds_on_the_float32_file() -> None:
    floats = evaluation("net", accuracy=84, latency=10)
    form = configuration("net", "int8")
    skipped = Evaluation(form, Status.SKIPPED, reason="dominated", stage=STAGE)
    assert not bound(floats, skipped).rejection_reason(tuned(form))


CARDS = tuple(card.name for card in load_catalogue().values())[:7]
TRAININGS = ("head", "finetune_top", "finetune_all")
PLAN = planned(load_catalogue().select(CARDS), ("float32", "int8"), (1,), TRAININGS, "runtime")
SPACE = PLAN.configurations()


def of(card: str, training: str) -> list[Configuration]:
    return [each for each in SPACE if CardTraining.of(each) == (card, training)]


def start(halving: SuccessiveHalving, card: str, training: str = "head", finished: bool = False) -> None:
    for each in of(card, training):
        halving.mark_started(each)
        if finished:
            halving.mark_done(each)


def test_the_example_of_the_docstring_holds() -> None:
    result = doctest.testmod(module)
    assert result.attempted > 5
    assert result.failed == 0


def test_a_card_is_blocked_until_every_configuration_below_is_done() -> None:
    halving = SuccessiveHalving(SPACE)
    *first, last = of(CARDS[0], "head")
    for each in first:
        halving.mark_done(each)
    assert halving.is_blocked(CardTraining(CARDS[0], "finetune_top"))
    halving.mark_done(last)
    assert not halving.is_blocked(CardTraining(CARDS[0], "finetune_top"))
    assert halving.is_blocked(CardTraining(CARDS[0], "finetune_all"))


def test_one_card_for_each_reduction_factor_done_is_promoted_while_others_have_not_started() -> None:
    halving = SuccessiveHalving(SPACE)
    for count, card in enumerate(CARDS[:6], 1):
        start(halving, card, finished=True)
        promotable = halving.promotable("finetune_top")
        assert bool(promotable) == (count >= REDUCTION_FACTOR)
        assert promotable == [unit.card for unit in halving.runnable() if unit.training == "finetune_top"]
    halving.mark_started(of(CARDS[1], "finetune_top")[0])
    halving.mark_started(of(CARDS[2], "finetune_top")[0])
    assert halving.promotable("finetune_top") == []
    above = [unit for unit in halving.runnable() if unit.training == "finetune_top"]
    assert above == [(CARDS[1], "finetune_top"), (CARDS[2], "finetune_top")]


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_the_reduction_factor_is_how_many_must_be_done_for_one_promotion(factor: int) -> None:
    halving = SuccessiveHalving(SPACE, reduction_factor=factor)
    for count, card in enumerate(CARDS[:5], 1):
        start(halving, card, finished=True)
        assert bool(halving.promotable("finetune_top")) == (count >= factor)


def test_no_card_waits_for_the_slowest_when_all_below_have_started() -> None:
    halving = SuccessiveHalving(SPACE)
    for card in CARDS:
        start(halving, card, finished=card == CARDS[3])
    assert halving.runnable() == [(CARDS[3], "finetune_top")]


def test_a_started_card_may_finish_its_rung_whatever_the_quota() -> None:
    halving = SuccessiveHalving(SPACE)
    for card in CARDS[:3]:
        start(halving, card, finished=True)
    first, second = of(CARDS[0], "finetune_top")
    halving.mark_started(first)
    assert halving.is_runnable(CardTraining.of(second))
    assert not halving.is_runnable(CardTraining(CARDS[1], "finetune_top"))


def test_what_was_evaluated_before_counts_as_done() -> None:
    halving = SuccessiveHalving(SPACE, [each for each in SPACE if each.training == "head"])
    assert halving.runnable() == [(card, "finetune_top") for card in CARDS]


def test_a_deferred_configuration_no_longer_blocks_heavier_trainings() -> None:
    halving = SuccessiveHalving(SPACE, [each for each in SPACE if each.training == "head"])
    start(halving, CARDS[0], "finetune_top")
    for each in of(CARDS[0], "finetune_top"):
        halving.defer(each, expected_gain=6.0)
    assert not halving.is_blocked(CardTraining(CARDS[0], "finetune_all"))
    assert halving.deferred == dict.fromkeys(of(CARDS[0], "finetune_top"), 6.0)


def test_only_what_there_is_capacity_for_is_runnable() -> None:
    runnable = SuccessiveHalving(SPACE).runnable(lambda unit: unit.card != CARDS[0])
    assert runnable == [(card, "head") for card in CARDS[1:]]


@settings(max_examples=25)
@given(st.data())
def test_nothing_starts_before_what_it_builds_on_and_everything_starts_in_the_end(data: st.DataObject) -> None:
    halving, done, running = SuccessiveHalving(SPACE), set[Configuration](), list[Configuration]()
    started = set[Configuration]()
    while (runnable := halving.runnable()) or running:
        if running and (not runnable or data.draw(st.booleans())):
            ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
            halving.mark_done(ended)
            done.add(ended)
            continue
        card, training = runnable[data.draw(st.integers(0, len(runnable) - 1))]
        configuration = next(each for each in of(card, training) if each not in started)
        lower = TRAININGS[: TRAININGS.index(training)]
        assert all(each in done for below in lower for each in of(card, below))
        halving.mark_started(configuration)
        started.add(configuration)
        running.append(configuration)
    assert started == set(SPACE)


@pytest.mark.parametrize("training", TRAININGS)
def test_a_search_of_one_rung_has_no_waiting(training: str) -> None:
    plan = planned(PLAN.cards, PLAN.recipes, (1, 2), (training,), "runtime")
    assert len(SuccessiveHalving(plan.configurations()).runnable()) == len(plan.cards)
