"""What picks that are 90 % sure cost."""

import numpy as np
import pytest

from benchmarks.latency_protocols.picks import _summary, _Tried


def test_a_pick_is_the_most_accurate_of_the_sure_networks_and_is_held_against_the_best() -> None:
    truth, accuracy = np.log([10.0, 20.0, 30.0]), np.array([60.0, 70.0, 80.0])
    tried = [
        _Tried(np.array([0.95, 0.92, 0.5]), truth, accuracy, float(np.log(30.0)), "one"),  # picks 70 of 80
        _Tried(np.array([0.95, 0.92, 0.1]), truth, accuracy, float(np.log(15.0)), "one"),  # picks 70, which is too slow
        _Tried(np.array([0.3, 0.2, 0.1]), truth, accuracy, float(np.log(10.0)), "one"),  # is sure of none
        _Tried(np.array([0.3, 0.2, 0.1]), truth, accuracy, float(np.log(5.0)), "one"),  # nothing could meet it
    ]
    found = _summary("CPUs", "k=0", tried)
    assert (found.budgets, found.picks, found.met) == (3, 2, 0.5)
    assert (found.met_low, found.met_high) == (0.5, 0.5)  # of one silicon
    assert found.stated == pytest.approx(0.92)
    assert found.lost == pytest.approx((10 + 0) / 2)
