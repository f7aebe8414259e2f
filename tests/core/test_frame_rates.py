"""A latency as a rate of frames."""

import pytest

from advisor.core.errors import UsageError
from advisor.core.units import milliseconds


@pytest.mark.parametrize(("text", "latency_ms"), [("30fps", 100 / 3), ("25 FPS", 40.0), ("60hz", 50 / 3)])
def test_a_rate_is_the_time_of_one_frame(text: str, latency_ms: float) -> None:
    assert milliseconds(text, "--budget") == pytest.approx(latency_ms)


@pytest.mark.parametrize("text", ["0fps", "-30fps", "fps"])
def test_no_rate_is_no_latency(text: str) -> None:
    with pytest.raises(UsageError, match="--budget"):
        milliseconds(text, "--budget")
