"""The way of a foreign file from its bytes to a measurement: whatever the bytes, an answer or one clear refusal."""

import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from advisor.core import AdvisorError, StageError, UsageError
from advisor.measurement import delegate_operators, measure
from advisor.measurement._accelerators import read_accelerators
from advisor.measurement._delegation import execution_order
from advisor.measurement._operators.profile import list_nodes, match_events
from advisor.tflite import activation_arena_bytes, read
from tests.measurement import small_models

CASES = int(os.environ.get("FUZZ_CASES", "10000"))


@cache
def whole() -> bytes:
    """A file small enough that most bytes matter."""
    return small_models.classifier(side=8, classes=2)


def survey(data: bytes) -> str:
    """Go the parent's whole way: read, then everything that is computed of a file before and after it is measured."""
    try:
        model = read(data, "fuzzed")
        sizes = activation_arena_bytes(model), len(list_nodes(model)), len(match_events(model, []))
        order = execution_order(model, set())
        told = [delegate_operators(model, each) for each in read_accelerators().values()]
    except UsageError as error:
        return one_line_naming("fuzzed", error)
    assert all(size >= 0 for size in sizes)
    assert sorted(order) == list(range(len(model.operators)))
    assert all(each.taken + len(each.refused) == each.operators for each in told)
    return "read"


def one_line_naming(name: str, error: AdvisorError) -> str:
    """Check a refusal's form."""
    assert "\n" not in error.message
    assert name in error.message
    return "refused"


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The file with some bytes changed, a stretch moved, or its end cut off."""
    data = bytearray(whole())
    places = st.integers(0, len(data) - 1)
    for place, value in draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8)):
        data[place] = value
    start, target, length = draw(places), draw(places), draw(st.integers(0, 64))
    if draw(st.booleans()):
        data[target : target + length] = data[start : start + length]
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


FUZZ = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.integration
@given(damaged())
@settings(FUZZ, max_examples=50)
def test_damaged_files_are_read_or_refused(data: bytes) -> None:
    survey(data)


@given(st.binary(max_size=4096))
@settings(FUZZ, max_examples=100)
def test_any_bytes_are_refused(data: bytes) -> None:
    assert survey(b"\x18\x00\x00\x00TFL3" + data) == "refused" or len(data) > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(damaged())
@settings(FUZZ, max_examples=CASES)
def test_many_damaged_files(data: bytes) -> None:
    survey(data)


@pytest.mark.integration
@given(st.tuples(st.integers(0, len(whole()) - 1), st.integers(0, 255)))
@settings(FUZZ, max_examples=2)
def test_the_parent_outlives_a_changed_byte(tmp_path_factory: pytest.TempPathFactory, change: tuple[int, int]) -> None:
    place, value = change
    path = Path(tmp_path_factory.mktemp("fuzz")) / "changed.tflite"
    path.write_bytes(whole()[:place] + bytes([value]) + whole()[place + 1 :])
    try:
        assert measure(path, effort="load", retry=False).results
    except StageError as error:
        one_line_naming("changed.tflite", error)
