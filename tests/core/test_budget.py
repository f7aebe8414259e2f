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
from advisor.core.latency_distribution import SHARES, LatencyDistribution, percent
from advisor.core.quantity import Provenance, Quantity
from tests.builders import evaluation

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
        assert decision.pick is not None
        assert decision.pick.configuration.card == pick


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
