from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.statistics import paired, paired_difference, paired_shares, wilson


def test_wilson_gives_the_textbook_interval() -> None:
    # Newcombe 1998, table I: 81 of 263 -> 0.2553 to 0.3662.
    interval = wilson(81, 263)
    assert interval.low == pytest.approx(0.2553, abs=1e-4)
    assert interval.high == pytest.approx(0.3662, abs=1e-4)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_stays_in_the_unit_interval(counts: tuple[int, int]) -> None:
    interval = wilson(*counts)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (3, 2), (-1, 5)])
def test_wilson_refuses_impossible_counts(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, trials)


def test_equal_answers_differ_by_nothing() -> None:
    right = [True, False, True]
    assert paired_difference(right, right) == paired_difference(right, right)
    assert paired_difference(right, right).spans_zero


def test_a_clear_difference_is_told_from_zero() -> None:
    interval = paired_difference([True] * 100, [True] * 60 + [False] * 40)
    assert interval.value == pytest.approx(0.4)
    assert not interval.spans_zero


def test_a_difference_within_noise_spans_zero() -> None:
    first = [True] * 50 + [False] * 50
    second = [True] * 47 + [False] * 3 + [True] * 2 + [False] * 48
    assert paired_difference(first, second).spans_zero


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_the_interval_holds_the_difference(pairs: list[tuple[bool, bool]]) -> None:
    first, second = zip(*pairs, strict=True)
    interval = paired_difference(first, second)
    assert interval.low <= interval.value <= interval.high


def test_answers_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="images"):
        paired_difference([True], [True, False])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=30, max_size=60))
def test_shares_of_one_answer_each_are_right_and_wrong_answers(pairs: list[tuple[bool, bool]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    assert paired_shares(first, second).value == pytest.approx(paired_difference(first, second).value)
    assert paired([float(a) for a in first], [float(b) for b in second]) == paired_difference(first, second)


def test_answers_to_one_image_hang_together() -> None:
    """Five pictures of forty that one candidate always misses are told from chance no better for ten looks each."""
    perfect, missing = [1.0] * 40, [0.0] * 5 + [1.0] * 35
    looked_once = paired_difference([True] * 40, [False] * 5 + [True] * 35)
    shares = paired_shares(perfect, missing)
    assert shares.high - shares.low == pytest.approx(looked_once.high - looked_once.low, abs=0.05)
    assert paired(perfect, [0.5] * 5 + [1.0] * 35).value == pytest.approx(5 / 80)


def test_shares_need_images_in_common() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        paired_shares([0.5, 0.5], [0.5])
