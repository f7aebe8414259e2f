"""What most tests of searches would otherwise do again or for long: time a file, and fit the predictor of latencies."""

from functools import cache

import pytest

from advisor.devices import _prediction as prediction
from advisor.devices._profiles.storing import own_folder
from advisor.measurement import timing
from tests.makers.forks import time_briefly

fit = prediction.Predictor.load


@pytest.fixture(autouse=True)
def brief_timings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is timed briefly, and on a busy machine not twice."""
    monkeypatch.setitem(timing.measure.__kwdefaults__, "retry", False)
    monkeypatch.setattr(timing, "_run_agent", time_briefly)


@pytest.fixture(autouse=True)
def one_predictor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitting takes a second, and depends on the shipped profiles and those in the settings of a test.

    The fit is kept in the cache of the user, and not in that of the first test.
    """
    monkeypatch.setattr(prediction.Predictor, "load", lambda: fit_once(own_profiles()))


def own_profiles() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(own_folder().glob("*")) if path.is_file())


@cache
def fit_once(_own: tuple[bytes, ...]) -> prediction.Predictor:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ADVISOR_CACHE_DIR", raising=False)
        return fit()
