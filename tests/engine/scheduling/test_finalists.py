"""Who is judged on the hold-out.

Cards that cost many times as much as the others: when they start, and when they are left out.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from optuna.storages import InMemoryStorage

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.decision import decide
from advisor.core.evaluation import Evaluation, Status
from advisor.core.forms import FORM_GAIN
from advisor.core.metrics import BALANCED, Preference, parse_preference
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.cost import rough_ms, rough_size
from advisor.engine.pipeline.rule import Known, RejectionRule, RuleNeeds
from advisor.engine.scheduling.promotion import HEAD_GAIN, LEAST_RESULTS, STAGE, ExpensiveCards, FrontBound
from advisor.engine.scheduling.scheduler import Allowance, Scheduler
from advisor.engine.scheduling.stopping import CONSECUTIVE, ExpectedGainRule, captured, ended_early, finalists
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan, prior_accuracy
from tests.builders import RUNTIME, evaluation, present
from tests.engine.plans import changed, planned
from tests.engine.scheduling.test_allowance import DEFAULT, Allowed
from tests.engine.scheduling.test_scheduler import CARDS, PLAN as HEADS, Search

BUDGET = Budget(latency_ms=50)


def _made(card: str, threads: int = 1, **figures: float) -> Evaluation:
    made = evaluation(card, threads=threads, **figures)  # type: ignore[arg-type]
    return replace(made, artefact=f"artifacts/{card}.tflite", artefact_sha256=card)


def _form(card: str, recipe: str, **figures: float) -> Evaluation:
    made = evaluation(card, recipe, **figures)  # type: ignore[arg-type]
    return replace(made, artefact=f"artifacts/{card}-{recipe}.tflite", artefact_sha256=f"{card}-{recipe}")


def _names(evaluations: list[Evaluation], images: int = 500) -> list[str]:
    return [e.configuration.card for e in finalists([decide(evaluations, BUDGET)], evaluations, images)]


def test_the_pick_is_first_and_a_file_that_cannot_be_picked_is_none() -> None:
    best = _made("best", accuracy=90, latency=20, size=4e6)
    tied = _made("tied", accuracy=89, latency=25, size=5e6)
    dominated = _made("dominated", accuracy=50, latency=30, size=6e6)
    assert _names([dominated, tied, best]) == ["best", "tied"]


def test_each_network_on_the_front_has_one_finalist() -> None:
    best = _made("best", accuracy=90, latency=20, size=4e6)
    near = _made("near", accuracy=88, latency=30, size=5e6)
    forms = [_form("fast", form, accuracy=60 - place, latency=2 - place, size=1e6) for place, form in enumerate("ab")]
    assert _names([*forms, near, best]) == ["best", "near", "fast"]
    assert finalists([decide([*forms, near, best], BUDGET)], [*forms, near, best], 500)[-1] == forms[0]


def test_at_most_ten_files_run_on_a_large_holdout_fewer_and_pick_and_runner_up_always() -> None:
    rows = [
        _made(f"card{place}", accuracy=60 + place, latency=2 + place, size=(1 + place) * 1e6) for place in range(25)
    ]
    whole = _names(rows)
    assert len(whole) == 10
    assert _names(rows, 2500) == whole[:4]
    assert _names(rows, 100_000) == whole[:2]


def test_where_the_drop_has_a_limit_the_float_file_of_the_pick_is_judged_too() -> None:
    rows = [_form("net", "int8", latency=2), _form("net", "float32", latency=90), _form("net", "float16", latency=90)]
    assert finalists([decide(rows, BUDGET)], rows, 500) == (rows[0],)
    assert finalists([decide(rows, BUDGET)], rows, 500, with_drop=True) == (rows[0], rows[1])


FAILED = Evaluation(_made("failed").configuration, Status.FAILED, reason="crashed")
THREADS = [_made("best", 1, accuracy=90, latency=20), _made("best", 2, accuracy=90, latency=11)]
JUDGED = replace(_made("best"), holdout_accuracy=Quantity(88.0, "%", Provenance.MEASURED, n=505))


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        pytest.param(THREADS, ["best", "best"], id="a file with all of its thread counts"),
        pytest.param([FAILED, _made("best")], ["best"], id="what failed is none"),
        pytest.param([_made("slow", latency=80), _made("slower", latency=90)], ["slow"], id="closest to the budget"),
        pytest.param([JUDGED], ["best"], id="one that was judged stays one"),
    ],
)
def test_finalists(rows: list[Evaluation], names: list[str]) -> None:
    assert _names(rows) == names


def test_phone_images_are_tried_on_pick_and_runner_up_and_for_robust_accuracy_on_each_other_network() -> None:
    def form(card: str, recipe: str, threads: int = 1) -> Evaluation:
        made = evaluation(card, compression=recipe, threads=threads)
        return replace(made, artefact_sha256=f"{card}-{recipe}")

    chosen = (
        form("a", "int8"), form("a", "int8", 2), form("a", "float16"), form("a", "float32"),
        form("b", "int8"), form("b", "float16"), form("b", "int8", 2),
    )  # fmt: skip
    tried = [[(e.artefact_sha256, e.configuration.target.threads) for e in captured(chosen, each)] for each in (0, 1)]
    assert tried[0] == [("a-int8", 1), ("a-int8", 2), ("a-float16", 1)]
    assert tried[1] == [*tried[0], ("b-int8", 1), ("b-int8", 2)]


EXPENSIVE, NO_LIMITS = "inception_v3_299", Budget()
NAMES = [*CARDS, EXPENSIVE]
PLAN = changed(HEADS, cards=load_catalogue().select(NAMES), trainings=("head",), images=2000, validation=400)


def _head(card: str, accuracy: float, latency: float = 5.0, size: float = 1e7, recipe: str = "float32") -> Evaluation:
    made = evaluation(card, accuracy=accuracy, latency=latency, size=size)
    return replace(made, configuration=PLAN.configuration(card, recipe, 1))


def _reason(*results: Evaluation, budget: Budget = NO_LIMITS) -> str:
    return _asked(ExpensiveCards.of(PLAN), results, budget)


def _asked(cards: ExpensiveCards, results: Sequence[Evaluation], budget: Budget = NO_LIMITS) -> str:
    candidate = cards.plan.configuration(EXPENSIVE, "float32", 1)
    return cards.reason(candidate, Known(budget, {each.configuration: each for each in results}))


def test_only_a_card_of_many_times_the_usual_work_is_expensive() -> None:
    assert list(ExpensiveCards.of(PLAN).cards) == [EXPENSIVE]
    cheap = replace(PLAN, cards=tuple(card for card in PLAN.cards if card.name != EXPENSIVE))
    assert not ExpensiveCards.of(cheap).cards


def test_an_expensive_card_is_left_out_where_another_is_picked_though_its_head_were_the_best() -> None:
    reason = _reason(*(_head(card, 90.0) for card in CARDS), _head(CARDS[0], 92.5, 1.0, 1e6, "int8"))
    assert CARDS[0] in reason
    assert f"{90 + 10 * HEAD_GAIN:.1f} %" in reason
    assert f"--candidates {EXPENSIVE}" in reason


@pytest.mark.parametrize(
    ("accuracies", "why"),
    [((90.0,) * (LEAST_RESULTS - 1), "too few results"), ((50.0,) * LEAST_RESULTS, "it may be far more accurate")],
)
def test_an_expensive_card_is_evaluated_where_it_may_be_picked(accuracies: tuple[float, ...], why: str) -> None:
    heads = [_head(card, accuracy) for card, accuracy in zip(CARDS, accuracies, strict=False)]
    assert not _reason(*heads), why


PUBLISHED = changed(PLAN, trainings=("none",), images=0, validation=0)


def _quoted() -> list[Evaluation]:
    made = [_head(card, 77.9) for card in CARDS]
    return [replace(each, configuration=replace(each.configuration, training="none")) for each in made]


def _reason_without_images(preference: Preference = BALANCED) -> str:
    return _asked(ExpensiveCards.of(PUBLISHED, preference), _quoted())


def test_without_images_the_published_accuracy_is_the_bound() -> None:
    published = present(load_catalogue()[EXPENSIVE].top1())
    assert f"points more than its published accuracy ({published + FORM_GAIN:.1f} %)" in _reason_without_images()


def test_an_expensive_card_is_evaluated_where_accuracy_alone_counts() -> None:
    assert not _reason_without_images(parse_preference("accuracy"))


def test_results_over_the_budget_leave_no_expensive_card_out() -> None:
    results = [*(_head(card, 90.0) for card in CARDS), _head(CARDS[0], 92.5, 1.0, 1e6, "int8")]
    assert not _reason(*results, budget=Budget(size_bytes=1e3))


def _bound(plan: Plan = PLAN) -> FrontBound:
    """Return the rules of a search with an expensive card."""
    expensive = ExpensiveCards.of(plan)
    rule = RejectionRule(RuleNeeds.RESULTS, STAGE, expensive.reason)
    return FrontBound(NO_LIMITS, (rule, *FrontBound(NO_LIMITS).listed), last=expensive.cards)


def _searching(plan: Plan = PLAN, rules: Plan = PLAN) -> Search:
    """Return a search with an expensive card."""
    search = Search(plan=plan)
    search.bound = _bound(rules)
    search.scheduler = Scheduler(search.study, search.bound, plan, 100, 2)
    return search


def _searched(accuracy: float) -> Search:
    """Return a search with an expensive card after the heads of all others had this accuracy."""
    search = _searching()
    search.end_heads(lambda _card: (accuracy, 1.0))
    return search


def test_an_expensive_card_starts_when_nothing_else_is_left() -> None:
    started = [each.card for each in _searched(50.0).started]
    assert started.index(EXPENSIVE) == len(started) - len(PLAN.recipes)


def test_an_expensive_card_is_not_counted_as_work_before_it_starts() -> None:
    search = _searching()
    search.start()
    assert [each.card for each in search.scheduler.waiting] == [EXPENSIVE] * len(PLAN.recipes)
    search.end_heads(lambda _card: (50.0, 1.0))
    assert not search.scheduler.waiting


def test_an_expensive_card_that_cannot_be_picked_is_rejected_at_the_end() -> None:
    search = _searched(97.0)
    assert EXPENSIVE not in {each.card for each in search.started}
    assert [each.card for each, _ in search.scheduler.reject_deferred()] == [EXPENSIVE] * len(PLAN.recipes)


def test_an_expensive_card_is_rejected_without_images_too() -> None:
    search = _searching(replace(PUBLISHED, cards=load_catalogue().select([EXPENSIVE])), PUBLISHED)
    search.bound.add(_quoted())
    assert search.scheduler.next([]) is None
    assert [each.card for each, _ in search.scheduler.reject_deferred()] == [EXPENSIVE] * len(PLAN.recipes)


def test_fine_tuning_does_not_wait_for_an_expensive_card() -> None:
    plan = replace(DEFAULT, cards=PLAN.cards)
    search = Allowed(plan)
    search.bound = _bound(plan)
    allowance = Allowance(plan, search.bound, search.favourite)
    search.scheduler = Scheduler(search.study, search.bound, plan, 100, 2, allowance)
    search.end_heads(lambda card: (80.0 + CARDS.index(card), 10.0 + CARDS.index(card)))
    assert search.tuned
    assert EXPENSIVE not in {each.card for each in search.started}


RECIPES = ("float32", "float16", "int8")


@pytest.fixture(scope="module")
def plan() -> Plan:
    cards = [card for card in load_catalogue().values() if card.family in ("mobilenet_v1", "mobilenet_v2")]
    return planned(tuple(cards), RECIPES, (1,), ("none",), RUNTIME)


@pytest.fixture(scope="module")
def small(plan: Plan) -> Plan:
    return replace(plan, cards=plan.cards[:5])


def searched(plan: Plan, sampler: str, least: float | None) -> tuple[int, ExpectedGainRule]:
    """Search a table that is as published; returns how many were evaluated."""
    study = Study(InMemoryStorage(), "advisor", plan, Budget(), sampler, 0, ())
    rule, cards, count = ExpectedGainRule(study, least), {card.name: card for card in plan.cards}, 0
    while not rule.met and (asked := study.ask()) is not None:
        card, recipe = cards[asked.card], asked.compression
        one = replace(
            evaluation(),
            configuration=asked,
            accuracy=Quantity(prior_accuracy(card, recipe), "%", Provenance.MEASURED),
            latency=Quantity(rough_ms(card, recipe, 1), "ms", Provenance.MEASURED),
            size=Quantity(rough_size(card, recipe), "bytes", Provenance.MEASURED),
        )
        study.tell(one)
        rule.update()
        count += 1
    return count, rule


def test_a_search_ends_where_more_is_not_expected_to_help(plan: Plan) -> None:
    count, rule = searched(plan, "advisor", 0.05)
    assert CONSECUTIVE < count < plan.size
    stop = rule.stop(plan.size - count)
    assert stop.why == "gain"
    assert "less than --stop-below 5%" in stop.text
    assert f"{plan.size - count} configurations not evaluated" in stop.text


@pytest.mark.parametrize(("sampler", "least"), [("advisor", None), ("random", 0.05)])
def test_without_a_share_or_an_expectation_everything_is_evaluated(
    small: Plan, sampler: str, least: float | None
) -> None:
    assert searched(small, sampler, least)[0] == small.size


def test_reasons_say_what_was_left() -> None:
    late, counted = ended_early("time_limit", "at --time-limit 10min", 3), ended_early("", "at --max-trials 40", 1)
    assert late.text == "stopped at --time-limit 10min: 3 configurations not evaluated"
    assert counted.text == "stopped at --max-trials 40: 1 configuration not evaluated"
