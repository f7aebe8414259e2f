"""The way of a foreign file from its bytes to a measurement: whatever the bytes, an answer or one clear refusal."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from advisor.core import StageError, UsageError
from advisor.measurement import measure
from advisor.tflite import read
from tests.measurement import small_models


@cache
def whole() -> bytes:
    """A file small enough that most bytes matter."""
    return small_models.classifier(side=8, classes=2)


@given(st.binary(max_size=100))
@settings(deadline=None, max_examples=100)
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="fuzzed"):
        read(b"\x18\x00\x00\x00TFL3" + data, "fuzzed")


@pytest.mark.integration
@given(st.tuples(st.integers(0, len(whole()) - 1), st.integers(0, 255)))
@settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck))
def test_the_parent_outlives_a_changed_byte(tmp_path_factory: pytest.TempPathFactory, change: tuple[int, int]) -> None:
    place, value = change
    path = Path(tmp_path_factory.mktemp("fuzz")) / "changed.tflite"
    path.write_bytes(whole()[:place] + bytes([value]) + whole()[place + 1 :])
    try:
        assert measure(path, effort="load", retry=False).results
    except StageError as error:
        assert "\n" not in error.message
        assert "changed.tflite" in error.message
