"""Images that come in groups: what counts as one, and intervals that hold for other groups."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import Decision, ImageUnits, Interval, Limits
from advisor.core._posterior import Posterior
from tests.builders import evaluation


def draw_flags(draw: np.random.Generator, groups: int, size: int, share: float, alike: float) -> np.ndarray:
    """Return right answers (1) to the images of groups; ``alike`` is their correlation within one."""
    shares = draw.beta(share * (1 - alike) / alike, (1 - share) * (1 - alike) / alike, groups)
    return (draw.random((groups, size)) < shares[:, None]).astype(float).reshape(-1)


@pytest.mark.parametrize("groups", [(), ("a", "a", "a"), (1, 2)], ids=["none", "one", "of other images"])
def test_without_several_groups_each_image_is_a_unit(groups: tuple[object, ...]) -> None:
    units = ImageUnits.of(groups, 3)
    assert units.are_single
    assert units.count == 3


def test_sums_are_those_of_the_groups() -> None:
    units = ImageUnits.of(("shop", "home", "shop"), 3)
    assert units.sum_values(np.array([[1, 10], [2, 20], [4, 40]])).tolist() == [[2, 20], [5, 50]]
    assert units.sizes.tolist() == [1, 2]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=1, max_size=60))
def test_images_are_never_worth_more_than_their_number(rows: list[tuple[bool, int]]) -> None:
    right, groups = zip(*rows, strict=True)
    flags = np.array(right, float)
    independent = ImageUnits.of(groups, len(rows)).count_independent(flags)
    assert 1 <= independent <= len(rows)
    interval = Interval.share_of(flags, groups)
    plain = Interval.wilson(sum(right), len(right))
    assert interval.low <= plain.low + 1e-9
    assert interval.high >= plain.high - 1e-9


@pytest.mark.parametrize(("share", "alike"), [(0.75, 0.4), (0.92, 0.15), (0.98, 0.4)])
def test_an_interval_of_grouped_images_holds_the_share_of_other_groups(share: float, alike: float) -> None:
    draw = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 8).tolist()
    held = 0
    held_by_images = 0
    for _ in range(200):
        flags = draw_flags(draw, 40, 8, share, alike)
        interval = Interval.share_of(flags, groups)
        plain = Interval.share_of(flags)
        held += interval.low <= share <= interval.high
        held_by_images += plain.low <= share <= plain.high
    assert held >= 184  # 92 %
    assert held_by_images < 180


def test_a_difference_that_one_group_makes_is_noise() -> None:
    second = [1.0] * 60
    first = [1.0] * 54 + [0.0] * 6
    groups = [place // 6 for place in range(60)]
    assert not Interval.difference_of_means(second, first).spans_zero
    assert Interval.difference_of_means(second, first, groups).spans_zero


def test_files_that_differ_in_one_group_are_tied() -> None:
    best, behind = evaluation("best", accuracy=100), evaluation("behind", accuracy=90, latency=5)
    answers = {"best": [1.0] * 60, "behind": [1.0] * 54 + [0.0] * 6}
    groups = [place // 6 for place in range(60)]

    def find_answers(row: object) -> list[float]:
        return answers[row.configuration.card]  # type: ignore[attr-defined]

    alone = Posterior([best, behind], find_answers)
    grouped = Posterior([best, behind], find_answers, groups)
    assert alone.tied(best, [behind]) == [False]
    assert grouped.tied(best, [behind]) == [True]
    assert Decision.of_evaluations([best, behind], Limits(), find_answers, groups=groups).ties


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_groups_of_one_image_change_nothing(pairs: list[tuple[bool, bool]]) -> None:
    rows = [evaluation("first"), evaluation("second")]
    answers = {"first": [float(a) for a, _ in pairs], "second": [float(b) for _, b in pairs]}

    def find_answers(row: object) -> list[float]:
        return answers[row.configuration.card]  # type: ignore[attr-defined]

    plain = Posterior(rows, find_answers).differences(rows[:1], rows[1:])
    single = Posterior(rows, find_answers, range(len(pairs))).differences(rows[:1], rows[1:])
    assert np.allclose(plain, single)
    assert Interval.share_of(answers["first"], range(len(pairs))) == Interval.share_of(answers["first"])
