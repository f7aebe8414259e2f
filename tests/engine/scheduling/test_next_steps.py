"""What the rule begins, in which order, and where it ends."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import BALANCED, Evaluation, Limits, Status
from advisor.core._preferences import parse_preference
from advisor.engine import Question, StageName
from advisor.engine._scheduling import next_steps
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._scheduling.next_steps import NO_TIME, SearchRule
from advisor.engine._scheduling.prices import TimeLimit
from advisor.engine._space.plan import Plan
from advisor.tasks.detection import DETECTION
from tests.engine.plans import asking, changed
from tests.engine.scheduling.searches import (
    BEST,
    EXPENSIVE,
    HEADS,
    NO_LIMIT,
    OTHER,
    PLAN,
    TUNED,
    WEAK,
    Search,
    of_cards,
    result,
)

LIMITS = st.none() | st.floats(5.0, 1500.0)
ACCURACIES = st.fixed_dictionaries({CardTraining(card, each): st.floats(30.0, 100.0) for card in (BEST, OTHER, WEAK)
                                    for each in PLAN.trainings})  # fmt: skip


def rule(plan: Plan = PLAN, left_s: float | None = None, limits: Limits = NO_LIMIT, least: float = 2.0) -> SearchRule:
    return SearchRule(plan, BALANCED, limits, least, None if left_s is None else TimeLimit(lambda: left_s))


def told(made: SearchRule, plan: Plan = PLAN, **accuracies: float) -> SearchRule:
    """Tell the float32 heads of cards, by name."""
    for card, accuracy in accuracies.items():
        made.condition_on(result(plan, plan.configuration(card, "float32", 1, "head"), accuracy))
    return made


@settings(max_examples=8, deadline=None)
@given(LIMITS, ACCURACIES)
def test_nothing_begins_twice_late_or_out_of_turn(left_s: float | None, accuracies: dict[CardTraining, float]) -> None:
    search = Search(PLAN, left_s, lambda network: accuracies[network]).finish()
    assert len(search.steps) == len(set(search.steps))
    assert left_s is None or search.now <= left_s + 1e-6
    order = [(each.network, each.form) for each in search.steps]
    for place, (network, _) in enumerate(order):
        if network.tuned:
            below = [each for each in order[:place] if each == (CardTraining(network.card, "head"), "float32")]
            assert below, "the head is done before its network is fine-tuned"
            own = [spot for spot, (each, _) in enumerate(order) if each == network]
            assert own[-1] - own[0] == len(own) - 1, "nothing else begins before a fine-tuned network has its forms"


@settings(max_examples=5, deadline=None)
@given(ACCURACIES)
def test_beside_a_fine_tuning_nothing_begins_nor_one_beside_a_head(accuracies: dict[CardTraining, float]) -> None:
    search = Search(PLAN, None, lambda network: accuracies[network], cores=2)
    for _ in search.advance():
        running = {CardTraining.of(each) for some in search.running for each in some}
        assert len(running) == 1 or not any(each.tuned for each in running)


@settings(max_examples=6, deadline=None)
@given(LIMITS, st.sampled_from([60, 400, 2000]))
def test_the_course_ends_and_is_what_the_search_does_with_expected_results(left_s: float | None, images: int) -> None:
    plan = changed(PLAN, images=images, validation=images // 5)
    made, now = rule(plan), 0.0
    if left_s is not None:
        made = SearchRule(plan, BALANCED, NO_LIMIT, 2.0, TimeLimit(lambda: left_s - now))
    first, foreseen = made.choose_steps(), list(made.forecast_steps())
    assert made.choose_steps() == first, "looking ahead changes nothing"
    assert foreseen[:1] == ([first] if first else [])
    steps = [step for some in foreseen for step in some]
    assert len(steps) == len(set(steps)) <= len(plan.configurations())


def test_fewer_images_make_less_of_fine_tuning() -> None:
    def expected(images: int) -> float:
        plan = changed(PLAN, images=images, validation=images // 5)
        made = told(rule(plan), plan, **{BEST: 80.0})
        return float(made.prospects.belief.mean[made.prospects.belief.place[CardTraining(BEST, TUNED)]])

    assert expected(2000) < expected(300) < expected(50)


def test_a_head_that_is_right_on_every_image_or_far_behind_is_not_fine_tuned() -> None:
    search = Search(accuracy=lambda _: 100.0).finish()
    assert search.heads
    assert not search.tuned
    search = Search(accuracy=lambda network: {BEST: 94.0, OTHER: 60.0, WEAK: 50.0}[network.card]).finish()
    assert search.tuned == [BEST]


def test_the_most_promising_head_is_fine_tuned_first_and_int8_of_the_pick_made_first() -> None:
    for best in (BEST, OTHER):
        search = Search(accuracy=lambda network: (90.0 if network.card == best else 84.0) + 4 * network.tuned)  # noqa: B023
        assert search.finish().tuned[0] == best
    search = Search(HEADS, accuracy=lambda network: {BEST: 92.0, OTHER: 85.0, WEAK: 70.0}[network.card]).finish()
    forms = [each.network.card for each in search.steps if each.form == "int8"]
    assert forms[0] == BEST
    assert WEAK not in forms


def test_within_a_limit_the_pick_gets_its_int8_file_before_another_network_begins() -> None:
    search = Search(left_s=400.0, cores=2).finish()
    first, second, third = search.steps[:3]
    assert (second.network, second.form) == (first.network, "int8")
    assert third.network != first.network
    assert len(search.began[0]) == 1
    assert Search(left_s=None, cores=2).finish().steps[1].form == "float32", "without a limit there is no hurry"


def test_of_networks_that_promise_as_much_the_cheaper_answers_first(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, good = "efficientnet_lite0_224", "efficientnet_lite1_240"
    plan = of_cards(changed(PLAN, images=1416, validation=283), quick, good)
    begun = []
    for early in (next_steps.EARLY, 0.0):
        monkeypatch.setattr(next_steps, "EARLY", early)
        begun.append(rule(plan, 300.0).choose_steps()[0].network.card)
    assert begun == [quick, good]


def test_the_int8_file_of_the_pick_comes_before_a_network_that_leaves_no_time_for_fine_tuning() -> None:
    plan = changed(PLAN, images=3000, validation=600)
    for left_s in (105.0, 106.0, 107.0):
        first, quick, third, *_ = Search(plan, left_s).finish().steps
        assert (third.network, third.form) == (first.network, "int8"), "after a quick head fine-tuning still had time"
        assert quick.network.card == WEAK


def test_a_limit_too_short_for_fine_tuning_evaluates_heads_alone_and_says_so() -> None:
    search = Search(left_s=30.0).finish()
    assert OTHER in search.heads
    assert not search.tuned
    assert search.rule.is_out_of_time
    assert search.rule.explain_refusal(FormStep(CardTraining(OTHER, TUNED), "float32")).startswith(NO_TIME)


def test_the_first_step_surely_ends_in_time_and_without_time_nothing_begins() -> None:
    needed = rule(left_s=1e6).prices.lasts_s([FormStep(CardTraining(OTHER, "head"), "float32")])
    first = [Search(left_s=times * needed, cores=2).finish().heads[0] for times in (1.3, 2.5)]
    assert first[0] == WEAK != first[1]
    assert rule(left_s=0.0).choose_steps() == ()


def test_on_a_busy_machine_the_cheapest_head_begins_although_it_may_be_late() -> None:
    left_s = 1.5 * rule(left_s=1e6).prices.lasts_s([FormStep(CardTraining(WEAK, "head"), "float32")])
    busy = SearchRule(PLAN, BALANCED, NO_LIMIT, 2.0, TimeLimit(lambda: left_s, lambda _name: 4.0))
    (step,) = busy.choose_steps()
    assert step == FormStep(CardTraining(WEAK, "head"), "float32")
    assert busy.choose_steps((step,)) == ()


@pytest.mark.parametrize("is_done", [True, False])
def test_a_further_head_begins_if_a_fine_tuning_has_its_time_after_all_that_runs(is_done: bool) -> None:
    cards = of_cards(PLAN, BEST, OTHER, "efficientnet_lite1_240")
    plan = changed(cards, images=2640, validation=296, recipes=("float32",))
    running = FormStep(CardTraining(OTHER, "head"), "float32")
    made = told(rule(plan, 375.0), plan, **{BEST: 80.0})
    if is_done:
        made.prices.finished.update(made.prices.stages(running))
    assert bool(made.choose_steps((running,))) == is_done


def test_spare_time_goes_to_the_head_of_another_card_once_there_is_a_result_and_a_limit_is_near() -> None:
    tuning = FormStep(CardTraining(BEST, TUNED), "float32")
    assert rule(left_s=400.0).choose_spare_step((tuning,)) is None, "the first answer comes first"
    assert told(rule(PLAN), PLAN, **{BEST: 89.0}).choose_spare_step((tuning,)) is None, "without a limit"
    made = told(rule(PLAN, 400.0), PLAN, **{BEST: 89.0})
    step = made.choose_spare_step((tuning,))
    assert step is not None
    assert (step.network.card, step.network.training, step.form) == (OTHER, "head", "float32")
    other = made.choose_spare_step((tuning,), (step,))
    assert other is not None
    assert other.network.card == WEAK
    assert made.choose_spare_step(()) is None, "nothing that would gain more is too late"
    assert (rule().find_picked_card(), made.find_picked_card()) == ("", BEST)
    head_s = made.prices.lasts_s([step])
    late = told(rule(PLAN, 1.05 * head_s), PLAN, **{BEST: 89.0}).choose_spare_step((tuning,))
    assert late is None or late.network.card == WEAK, "its int8 file would not end in time"
    assert made.choose_steps((), (step,)) != (), "and nothing waits for it"


def test_an_expensive_card_comes_last_and_only_where_it_may_win() -> None:
    plan = of_cards(HEADS, BEST, OTHER, WEAK, EXPENSIVE)
    hard = Search(plan, accuracy=lambda network: 60.0 + 10.0 * (network.card == EXPENSIVE)).finish()
    assert hard.heads[-1] == EXPENSIVE
    assert EXPENSIVE not in Search(plan, accuracy=lambda _: 99.0).finish().heads


def test_more_is_evaluated_where_less_must_be_gained() -> None:
    few, many = (len([*rule(least=least).forecast_steps()]) for least in (100.0, 0.1))
    assert few < many


def test_a_result_over_the_budget_is_no_pick_and_cards_that_break_it_come_last() -> None:
    made = rule(HEADS, limits=Limits(latency_ms=20.0))
    made.condition_on(result(HEADS, HEADS.configuration(OTHER, "float32", 1), 99.0, slower=100.0))
    assert made.prospects.find_pick().place == made.prospects.belief.place[CardTraining(OTHER, "head")]
    made.condition_on(result(HEADS, HEADS.configuration(WEAK, "float32", 1), 60.0, slower=0.01))
    assert made.prospects.find_pick().place == made.prospects.belief.place[CardTraining(WEAK, "head")]
    plan = of_cards(HEADS, BEST, WEAK, EXPENSIVE)
    heads = Search(plan, limits=Limits(latency_ms=15.0)).finish().heads
    assert heads
    assert EXPENSIVE not in heads[:2]


def test_a_detector_is_trained_alone_and_first_the_one_that_gains_most_for_each_second() -> None:
    made = rule(asking(HEADS, Question(DETECTION.name)))
    first = made.choose_steps()
    assert len(first) == 1
    assert made.choose_steps(first) == ()
    boxes = told(rule(asking(PLAN, Question(DETECTION.name)), 4000.0), PLAN, **{BEST: 50.0})
    assert boxes.choose_spare_step(first) is None, "another training would take its memory and cores"
    made.prices.finished.update(made.prices.stages(first[0]))
    assert made.choose_steps(first) != ()
    plan = of_cards(asking(HEADS, Question(DETECTION.name)), EXPENSIVE, OTHER, WEAK)
    (first,) = rule(plan).choose_steps()
    assert first.network.card == WEAK
    (only,) = rule(of_cards(plan, EXPENSIVE, OTHER)).choose_steps()
    assert only.network.card == OTHER


@pytest.mark.parametrize("status", [Status.FAILED, Status.SKIPPED])
def test_what_failed_is_not_tried_again_and_not_fine_tuned(status: Status) -> None:
    made = rule()
    for card in (BEST, OTHER):
        made.condition_on(Evaluation(PLAN.configuration(card, "float32", 1, "head"), status, reason="because"))
    course = [step for some in made.forecast_steps() for step in some]
    assert {step.network.card for step in course} == {WEAK}
    assert (
        made.explain_refusal(FormStep(CardTraining(BEST, TUNED), "int8"))
        == "no lighter training of this model was evaluated"
    )


def test_a_finished_file_teaches_nothing_and_without_a_limit_the_pace_of_the_machine_changes_nothing() -> None:
    made = rule()
    one = result(PLAN, PLAN.configuration(BEST, "float32", 1, "head"), 99.9)
    before = made.prospects.belief
    made.condition_on(replace(one, card_facts=replace(one.card_facts, as_it_is=True)))
    assert made.prospects.belief is before
    slow = replace(PLAN, pace=dict.fromkeys(StageName, 5.0))
    assert list(rule(slow).forecast_steps()) == list(rule().forecast_steps())
    assert list(rule(slow, left_s=400.0).forecast_steps()) != list(rule(left_s=400.0).forecast_steps())


def test_why_a_network_is_not_fine_tuned_and_of_one_that_was_only_a_form_is_not_made() -> None:
    made = told(rule(), **{BEST: 96.0, OTHER: 50.0, WEAK: 96.0})
    assert "and would not be picked" in made.explain_refusal(FormStep(CardTraining(OTHER, TUNED), "int8"))
    int8 = FormStep(CardTraining(WEAK, TUNED), "int8")
    worth = made.explain_refusal(int8)
    assert worth.startswith("not fine-tuned: it is expected to reach 9")
    assert f"--training {TUNED}" in worth
    made.condition_on(result(PLAN, PLAN.configuration(WEAK, "float32", 1, TUNED), 90.0))
    worse = made.explain_refusal(int8)
    assert worse.startswith("form not made: the fine-tuned network is expected to have 9")
    assert "not fine-tuned" not in worse


def test_a_form_that_has_no_time_is_not_said_to_be_worth_too_little() -> None:
    made = told(rule(left_s=1.0), **{WEAK: 96.0})
    made.condition_on(result(PLAN, PLAN.configuration(WEAK, "float32", 1, TUNED), 97.0))
    assert made.explain_refusal(FormStep(CardTraining(WEAK, TUNED), "int8")).startswith(NO_TIME)


def test_everything_may_begin_but_what_cannot_be_picked() -> None:
    made = told(rule(), **{BEST: 96.0, OTHER: 50.0})
    assert not made.may_begin(FormStep(CardTraining(OTHER, TUNED), "float32")), "it would not be picked"
    assert not made.may_begin(FormStep(CardTraining(WEAK, TUNED), "float32")), "its head has no result"
    assert not made.may_begin(FormStep(CardTraining(BEST, TUNED), "float32")), "a head is missing"
    told(made, **{WEAK: 95.0})
    assert not made.may_begin(FormStep(CardTraining(BEST, TUNED), "int8")), "its float32 file has none"
    assert made.may_begin(FormStep(CardTraining(BEST, TUNED), "float32"))
    assert made.may_begin(FormStep(CardTraining(OTHER, "head"), "int8"))


def test_a_preference_for_latency_begins_with_the_fastest() -> None:
    assert Search(HEADS, preference=parse_preference("latency")).finish().heads[0] == WEAK
