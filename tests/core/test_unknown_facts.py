from __future__ import annotations

import math

import pytest

from advisor.core.statistics import Interval
from advisor.core.unknown_facts import LeftOut, OtherThings, UnknownFacts

PART = Interval(0.8, 0.7, 0.9)


@pytest.mark.parametrize("share", [-0.1, 1.5, 1e308, math.nan, math.inf])
def test_a_share_outside_0_and_1_is_refused(share: float) -> None:
    for make in (
        lambda: UnknownFacts(accepted=share),
        lambda: UnknownFacts(kept=Interval(0.5, 0.4, share)),
        lambda: LeftOut(PART, share, 5),
        lambda: OtherThings(PART, Interval(share, 0.0, 1.0), 5),
    ):
        with pytest.raises(ValueError, match="no share between 0 and 1"):
            make()


def test_figures_that_are_not_known_are_allowed() -> None:
    assert UnknownFacts().auroc is None
