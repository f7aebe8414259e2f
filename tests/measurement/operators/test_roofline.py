"""The host's limits."""

import pytest

from advisor.measurement.operators import roofline

pytestmark = pytest.mark.integration


def test_this_host_computes_and_moves() -> None:
    found = roofline.measure()
    assert found.gflops > 0.1
    assert found.gbytes > 0.1
    assert roofline.measure() is found
