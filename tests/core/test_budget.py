from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.budget import Budget, allows, parse_licences, show_budget_probability, with_budget_probability
from advisor.core.decision import decide
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.latency_distribution import SHARES, LatencyDistribution, percent
from advisor.core.quantity import Provenance, Quantity
from tests.builders import evaluation, present

NORMAL = NormalDist()


def spread(median: float, deviation: float = 0.2) -> LatencyDistribution:
    return LatencyDistribution.sample(lambda share: median * 2.718281828 ** (deviation * NORMAL.inv_cdf(share)))


def predicted(card: str, median: float, accuracy: float = 80.0) -> Evaluation:
    distribution = spread(median)
    low, high = distribution.at(0.1), distribution.at(0.9)
    latency = Quantity(median, "ms", Provenance.PREDICTED, low, high, 0.8)
    return replace(evaluation(card, accuracy=accuracy), latency=latency, latency_distribution=distribution)


@given(st.floats(0.01, 0.99))
def test_the_chance_of_a_quantile_is_its_share(share: float) -> None:
    chances = spread(40)
    assert chances.below(chances.at(share)) == pytest.approx(share, abs=1e-9)


@given(st.floats(1, 1000), st.floats(1, 1000))
def test_a_looser_limit_is_never_met_with_less_probability(one: float, other: float) -> None:
    chances = spread(40)
    assert chances.below(min(one, other)) <= chances.below(max(one, other))


def test_between_the_kept_shares_the_error_is_small() -> None:
    chances = spread(40)
    for share in (0.02, 0.15, 0.45, 0.85, 0.97):
        exact = 40 * 2.718281828 ** (0.2 * NORMAL.inv_cdf(share))
        assert chances.below(exact) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("damaged", [None, "", [], [1.0] * 3, [-1.0] * len(SHARES), list(range(len(SHARES), 0, -1))])
def test_a_damaged_distribution_is_none(damaged: object) -> None:
    assert LatencyDistribution.read(damaged) is None


@given(st.floats(20, 80), st.floats(0.55, 0.98))
def test_a_prediction_meets_the_limit_exactly_where_its_chance_reaches_the_confidence(
    median: float, confidence: float
) -> None:
    found = with_budget_probability(predicted("one", median), 50.0, confidence)
    chance = spread(median).below(50.0)
    if abs(chance - confidence) > 1e-6:
        assert Budget(latency_ms=50.0).met_by(found) == (chance >= confidence)


def test_another_confidence_picks_another_model() -> None:
    rows = [predicted("likely", 42, accuracy=90), predicted("sure", 20, accuracy=80)]
    for confidence, pick in ((0.7, "likely"), (0.95, "sure")):
        decision = decide([with_budget_probability(row, 50.0, confidence) for row in rows], Budget(latency_ms=50.0))
        assert present(decision.pick).configuration.card == pick


def test_the_reason_says_how_sure_a_predicted_pick_is() -> None:
    pick = with_budget_probability(predicted("one", 38), 50.0, 0.9)
    reason = decide([pick], Budget(latency_ms=50.0)).reason
    assert "predicted 38.0 ms [29.4-49.1]" in reason
    assert "91 % sure to meet 50.0 ms" in reason


def test_a_measured_evaluation_is_left_as_it_is() -> None:
    measured = evaluation("one")
    assert with_budget_probability(measured, 50.0, 0.9) is measured
    assert show_budget_probability(measured, 50.0) == ""


@pytest.mark.parametrize(("share", "text"), [(0.9999, "over 99 %"), (0.001, "under 1 %"), (0.97, "97 %")])
def test_no_probability_is_shown_as_certain(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("wanted", "licence", "allowed"),
    [
        ("", "AGPL-3.0", True),
        ("", None, True),
        ("permissive", "Apache-2.0", True),
        ("permissive", "bsd-3-clause", True),
        ("permissive", "AGPL-3.0", False),
        ("permissive", "CC-BY-NC-4.0", False),
        ("permissive", "", False),
        ("permissive", None, False),
        ("permissive,CC-BY-4.0", "CC-BY-4.0", True),
        ("MIT", "Apache-2.0", False),
    ],
)
def test_which_licences_are_taken(wanted: str, licence: str | None, allowed: bool) -> None:
    assert allows(parse_licences(wanted), licence) is allowed


@pytest.mark.parametrize("text", ["free as in beer", "<b>", "MIT;GPL"])
def test_what_is_no_licence_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--licence"):
        parse_licences(text)


SITES = Budget(latency_ms=50.0, min_metrics=(("worst-group", 70.0),))


def with_sites(card: str, accuracy: float, worst: float | None, held: float | None = None) -> Evaluation:
    """Return an evaluation with the top-1 of the worst group, on validation and on the hold-out."""

    def answers(value: float | None) -> ImageAnswers:
        known = Quantity(value or 0.0, "%", Provenance.MEASURED, (value or 0.0) - 8, (value or 0.0) + 8, 0.95, 40)
        return ImageAnswers(metrics={} if value is None else {"worst-group": known})

    found = replace(evaluation(card, accuracy=accuracy), answers=answers(worst))
    return replace(found, holdout_answers=answers(held)) if held is not None else found


def test_a_limit_of_another_metric_decides_what_may_be_picked() -> None:
    decision = decide([with_sites("uneven", 90, 60), with_sites("even", 80, 75)], SITES)
    assert present(decision.pick).configuration.card == "even"
    assert "the limit of 70.0 % worst-group top-1 is met with 89 % probability" in decision.reason
    assert decision.loosenings == ()  # 10 points are beyond a quarter of the error that the limit allows


def test_what_a_looser_limit_of_a_metric_buys_is_named() -> None:
    decision = decide([with_sites("uneven", 90, 65), with_sites("even", 80, 75)], SITES)
    (looser,) = decision.loosenings
    assert (looser.limit, looser.current, looser.needed) == ("worst-group", "70.0 %", "65.0 %")


def test_nothing_that_meets_a_limit_of_a_metric_names_the_figures_of_both_parts() -> None:
    decision = decide([with_sites("uneven", 90, 72, 60)], SITES)
    assert not decision.feasible
    assert "worst-group top-1 72.0 % on validation and 60.0 % on the hold-out against 70.0 %" in decision.reason
    assert decision.relaxations[0].text.startswith("worst-group 70.0 % -> 64.0 % admits uneven")


def test_a_metric_that_is_not_known_meets_no_limit() -> None:
    decision = decide([with_sites("one", 90, None)], SITES)
    assert "its worst-group top-1 is not known (limit 70.0 %)" in decision.reason
    assert SITES.probabilities(with_sites("one", 90, None)) == {}
