from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.budget import Budget
from advisor.core.decision import decide
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.preference import BALANCED, PREFERENCES, Preference, parse_preference
from tests.builders import evaluation

BUDGET = Budget(latency_ms=50)

ACCURATE = evaluation("accurate", accuracy=92, latency=20, size=9e6)
FAST = evaluation("fast", accuracy=80, latency=2, size=4e6)
SMALL = evaluation("small", accuracy=75, latency=9, size=1e6)
ALL = [ACCURATE, FAST, SMALL]


@pytest.mark.parametrize(("name", "pick"), [("accuracy", ACCURATE), ("latency", FAST), ("size", SMALL)])
def test_a_preference_for_one_figure_picks_its_best(name: str, pick: Evaluation) -> None:
    assert decide(ALL, BUDGET, preference=PREFERENCES[name]).pick == pick


def test_the_default_is_balanced() -> None:
    assert decide(ALL, BUDGET) == decide(ALL, BUDGET, preference=BALANCED)


def test_weights_choose_among_all_that_fit() -> None:
    decision = decide(ALL, BUDGET, preference=parse_preference("accuracy=0.5,latency=2"))
    assert decision.pick == FAST
    assert "accuracy=0.5,latency=2,size=0" in decision.reason
    assert "12.0 points behind the most accurate" in decision.reason


def test_a_preference_picks_nothing_that_breaks_the_budget() -> None:
    assert decide(ALL, Budget(latency_ms=15), preference=PREFERENCES["accuracy"]).pick == FAST


def test_twice_the_weight_on_size_is_among_the_flips() -> None:
    quick = evaluation("quick", accuracy=90, latency=5, size=4e6)
    light = evaluation("light", accuracy=90, latency=12, size=2e6)
    decision = decide([quick, light], BUDGET)
    assert decision.pick == quick
    assert any("size matters twice as much: light" in flip.text for flip in decision.flips)


def test_a_preference_for_accuracy_says_what_it_cannot_tell_apart() -> None:
    best, near = evaluation("best", accuracy=90.5), evaluation("near", accuracy=90, latency=2)
    decision = decide([best, near], BUDGET, preference=PREFERENCES["accuracy"])
    assert decision.pick == best
    assert "statistically tied with 1 other" in decision.reason


@pytest.mark.parametrize("name", PREFERENCES)
def test_a_name_is_read_back(name: str) -> None:
    assert parse_preference(f" {name.upper()} ") == PREFERENCES[name]


weights = st.floats(0, 100, allow_nan=False).map(lambda value: round(value, 3))


@given(weights, weights, weights)
def test_weights_are_read_back(accuracy: float, latency: float, size: float) -> None:
    written = f"accuracy={accuracy},latency={latency},size={size}"
    if accuracy == latency == size == 0:
        with pytest.raises(UsageError, match="has no weight above 0"):
            parse_preference(written)
    else:
        assert parse_preference(written) == Preference(accuracy, latency, size)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("latancy", "did you mean 'latency'"),
        ("acuracy=1", "did you mean 'accuracy'"),
        ("size=-1", "'-1' of size is not a number from 0 to 100"),
        ("size=nan", "'nan' of size"),
        ("size=much", "'much' of size"),
        ("size=0", "has no weight above 0"),
        ("", "unknown preference ''"),
    ],
)
def test_what_is_no_preference_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_preference(text)
    assert "--prefer balanced" in caught.value.hint


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 40), st.integers(1, 99)), min_size=1, max_size=12))
def test_any_weights_pick_from_the_front(rows: list[tuple[int, int, int]]) -> None:
    evaluations = [
        evaluation(f"card{place}", accuracy=accuracy, latency=latency, size=size * 1e5)
        for place, (accuracy, latency, size) in enumerate(rows)
    ]
    decision = decide(evaluations, BUDGET, preference=Preference(1.0, 0.7, 0.3))
    assert decision.pick in decision.front
