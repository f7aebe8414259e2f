"""What steps take, what they share, and what ends in time."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from advisor.engine import Purpose, Question, StageName
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._scheduling.prices import LEAST_SHARE, Prices, TimeLimit, share_of_gain
from advisor.tasks.detection import DETECTION
from tests.engine.plans import asking, changed
from tests.engine.scheduling.searches import BEST, OTHER, PLAN, TUNED

PACED = replace(PLAN, pace=dict.fromkeys(StageName, 3.0))
STEPS = tuple(dict.fromkeys(map(FormStep.of, PLAN.configurations())))
HEAD, TUNING = FormStep(CardTraining(BEST, "head"), "float32"), FormStep(CardTraining(BEST, TUNED), "float32")
PRICES = Prices(PLAN, None)

some = st.lists(st.sampled_from(STEPS), max_size=4)


def within(left_s: float, observed: float = 1.0) -> Prices:
    return Prices(PLAN, TimeLimit(lambda: left_s, lambda _name: observed))


@settings(max_examples=15)
@given(some, some)
def test_a_price_is_never_negative_and_shared_steps_are_paid_once(first: list[FormStep], then: list[FormStep]) -> None:
    both = PRICES.seconds([*first, *then])
    assert both == pytest.approx(PRICES.seconds(first) + PRICES.seconds(then, first))
    assert 0.0 <= PRICES.seconds(then, first) <= PRICES.seconds(then)


@settings(max_examples=15)
@given(some, some)
def test_finished_and_cached_stages_cost_nothing(done: list[FormStep], steps: list[FormStep]) -> None:
    prices = Prices(PLAN, None)
    prices.finished.update(stage for step in done for stage in prices.stages(step))
    assert prices.seconds(steps) == pytest.approx(PRICES.seconds(steps, done))
    assert prices.seconds(done) == 0.0
    assert prices.lasts_s(tuple(done)) == 0.0
    assert Prices(replace(PLAN, cached=frozenset(prices.finished)), None).seconds(steps) == prices.seconds(steps)


@settings(max_examples=15)
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3), st.floats(0, 2000), st.floats(0, 2000))
def test_more_time_never_ends_less_nor_a_slower_machine_more(steps: list[FormStep], left: float, more: float) -> None:
    share = within(left).share(steps)
    assert within(left + more).share(steps) >= share >= within(left, observed=2.0).share(steps)
    assert share == 0.0 or share >= LEAST_SHARE
    assert within(left).lasts_s(tuple(steps)) <= left + 1e-6 or share == 0.0


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_longer_fine_tuning_never_gains_less_and_a_whole_one_gains_all(share: float, more: float) -> None:
    assert share_of_gain(min(1.0, share + more), 1000) >= share_of_gain(share, 1000) >= 0.0
    assert share_of_gain(1.0, 1000) == 1.0


def test_few_images_need_a_larger_share_of_their_time_for_the_same_gain() -> None:
    few, many = (share_of_gain(0.3, images) for images in (100, 2000))
    assert 0.0 < few < many


def test_without_a_limit_everything_ends_and_a_limit_cuts_fine_tuning_alone() -> None:
    assert PRICES.share((TUNING,)) == 1.0
    head_s = within(1e9).lasts_s((HEAD,))
    assert (within(head_s + 1.0).share((HEAD,)), within(head_s - 1.0).share((HEAD,))) == (1.0, 0.0)
    whole_s = within(1e9).lasts_s((TUNING,))
    assert LEAST_SHARE < within(0.7 * whole_s).share((TUNING,)) < 1.0
    assert within(0.1 * whole_s).share((TUNING,)) == 0.0


def test_a_detector_is_fine_tuned_only_if_all_of_it_is_expected_to_end_in_time() -> None:
    plan = asking(changed(PLAN, trainings=("head", "finetune_all")), Question(task="object-detection"))
    step = FormStep(CardTraining(BEST, "finetune_all"), "float32")
    whole_s = Prices(plan, TimeLimit(lambda: 1e9)).lasts_s((step,))
    shares = [Prices(plan, TimeLimit(lambda part=part: part * whole_s)).share((step,)) for part in (0.9, 1.01)]
    assert shares == [0.0, 1.0]


def test_work_before_a_step_leaves_it_less_time_and_prices_know_what_is_done() -> None:
    other = FormStep(CardTraining(OTHER, "head"), "float32")
    prices = within(within(1e9).lasts_s((HEAD, other)) - 1.0)
    assert prices.share((HEAD,)) == 1.0
    assert prices.share((HEAD,), (other,)) == 0.0
    prices.running = (other,)
    assert prices.share((HEAD,)) == 0.0
    prices = within(600.0)
    prices.finished.update(prices.stages(HEAD))
    later = prices.later(lambda: 590.0)
    assert (prices.share((TUNING,)) > 0.0, later.share((TUNING,))) == (True, 0.0)
    assert later.seconds((HEAD,)) == 0.0


def test_the_pace_of_this_machine_counts_within_a_limit_only() -> None:
    assert Prices(PACED, None).seconds((TUNING,)) == PRICES.seconds((TUNING,))
    assert Prices(PACED, TimeLimit(lambda: 600.0)).seconds((TUNING,)) > 2.0 * PRICES.seconds((TUNING,))


def test_after_a_fine_tuning_only_its_forms_are_left() -> None:
    short = within(600.0).finishing_s(TUNING.network, ("float32",))
    assert 0.0 < short < within(600.0).finishing_s(TUNING.network, ("float32", "int8"))
    assert short < within(600.0).lasts_s((TUNING,)) / 2
    assert within(600.0, observed=2.0).finishing_s(TUNING.network, ("float32",)) == pytest.approx(2.0 * short)


def test_files_of_kinds_that_this_search_has_made_need_a_smaller_reserve() -> None:
    prices = within(600.0)
    unknown_s = prices.finishing_s(TUNING.network, ("float32",))
    prices.finished.update(prices.stages(HEAD))
    assert prices.finishing_s(TUNING.network, ("float32",)) == pytest.approx(1.2 / 1.5 * unknown_s)


def test_one_core_makes_the_compared_files_after_the_final_training_and_two_beside_it() -> None:
    limit = TimeLimit(lambda: 600.0)
    one, two = (
        Prices(replace(PLAN, cores=cores), limit).finishing_s(TUNING.network, ("float32", "int8")) for cores in (1, 2)
    )
    assert one > two + 5.0


def test_a_training_that_ships_itself_needs_its_files_once() -> None:
    prices = Prices(replace(PLAN, cores=1), TimeLimit(lambda: 600.0))
    forms = ("float32", "int8")
    whole_s = prices.finishing_s(TUNING.network, forms)
    assert 0.0 < prices.finishing_s(TUNING.network, forms, whole=False) < whole_s - 5.0


@pytest.mark.parametrize("training", ["head", "finetune_all"])
def test_the_training_of_a_detector_that_ships_does_not_follow_itself(training: str) -> None:
    step = FormStep(CardTraining(BEST, training), "float32")
    prices = Prices(asking(changed(PLAN, trainings=("head", "finetune_all")), Question(DETECTION.name)), None)
    (ships,) = (e for e in prices.stages(step) if (e.name, e.scope.purpose) == (training, Purpose.SHIP))
    before = prices.finishing_s(step.network, ("float32",))
    prices.finished.add(ships)
    assert 0.0 < before == prices.finishing_s(step.network, ("float32",))
