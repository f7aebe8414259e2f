"""What an accelerator would take, held against what XNNPACK really takes."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.measurement import Delegation
from advisor.measurement._accelerators import Accelerator, DataTypes
from advisor.measurement._delegation import form_partitions
from advisor.measurement._operators.profile import profile
from advisor.tflite import read, to_float16
from tests.builders import must_fail
from tests.measurement import small_models
from tests.tables import with_cases

delegate_operators = Delegation.of_operators
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "models"
FOREIGN = tuple(sorted(SHARED.glob("*.tflite"))[-1:])
ACTIVATIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "FULLY_CONNECTED", "SOFTMAX")

Where = dict[str, dict[str, int] | list[str]]
CHAIN = read(small_models.classifier())


def rules(*operators: str, where: Where | None = None, ways: Sequence[Where] = (), **limits: object) -> Accelerator:
    """Return an accelerator of float32 operators; ``where`` holds for all, and one of ``ways`` is enough."""
    entries = [{"names": list(operators), "types": ["float32"], "where": way} for way in ways or [{}]]
    common = {"name": "toy", "title": "Toy", "sources": ["made up"], "where": where or {}}
    return Accelerator.model_validate({**common, "operators": entries, **limits})


def agrees(path: Path) -> bool:
    """Compare with a real run, of which a busy machine can disturb all attempts; it then says so."""
    told = delegate_operators(read(path), Accelerator.find("xnnpack"))
    tried = (profile(path, with_roofline=False) for _ in range(9))
    seen = next(each for each in tried if each.kernels == "default")
    builtin = {row.node.index for row in seen.operators if row.where == "builtin" and row.node}
    return ({row.index for row in told.refused}, told.partitions) == (builtin, seen.partitions)


@pytest.mark.integration
@pytest.mark.parametrize("fixture", ["float_model", "int8_model", "swish_model"])
def test_xnnpack_takes_what_its_rules_say(fixture: str, request: pytest.FixtureRequest) -> None:
    assert agrees(request.getfixturevalue(fixture))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("make", "partitions", "reasons"),
    [
        (lambda: to_float16(small_models.classifier()), 1, []),
        (small_models.brightness, 1, ["SOFTMAX with beta 10.0, 1.0 only"]),
    ],
)
def test_xnnpack_takes_constants_of_float16_and_leaves_options_that_its_rules_exclude(
    tmp_path: Path, make: Callable[[], bytes], partitions: int, reasons: list[str]
) -> None:
    path = small_models.saved(tmp_path, make())
    assert agrees(path)
    told = delegate_operators(read(path), Accelerator.find("xnnpack"))
    assert (told.partitions, [row.reason for row in told.refused]) == (partitions, reasons)


@pytest.mark.integration
@pytest.mark.skipif(not FOREIGN, reason="../shared/data/models is not here")
@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_xnnpack_takes_what_its_rules_say_of_files_made_by_others(path: Path) -> None:
    assert agrees(path)


@with_cases
def test_what_breaks_a_constraint_stays_behind(float_model: Path, where: Where, reason: str) -> None:
    told = delegate_operators(read(float_model), rules(*ACTIVATIONS, ways=[where]))
    assert any(reason in row.reason for row in told.refused)
    common = delegate_operators(read(float_model), rules(*ACTIVATIONS, where=where))
    assert [row.reason for row in common.refused] == [row.reason for row in told.refused]


def test_one_of_several_ways_is_enough_and_an_operator_that_no_rule_names_stays_behind(float_model: Path) -> None:
    assert delegate_operators(read(float_model), rules(*ACTIVATIONS, ways=[{"inputs": {"most": 0}}, {}])).refused == ()
    told = delegate_operators(read(float_model), rules("CONV_2D"))
    assert {row.reason for row in told.refused} == {f"{n} is not supported" for n in ACTIVATIONS if n != "CONV_2D"}
    assert (told.taken, told.operators, told.partitions) == (2, 6, 2)
    assert 0 < told.share < 1


@with_cases
def test_enough_work_in_few_pieces_is_worth_it(
    float_model: Path, operators: list[str], limits: dict[str, int], sentence: str
) -> None:
    told = delegate_operators(read(float_model), rules(*(operators or ACTIVATIONS), **limits))
    assert re.search(sentence, told.sentence)
    assert bool(told.objections) is ("not worth it" in told.sentence)


def test_a_runtime_that_hands_over_the_first_or_the_largest_piece_leaves_the_others(float_model: Path) -> None:
    told = delegate_operators(read(float_model), rules("CONV_2D", least_macs=0, keeps={"pieces": 1, "choose": "first"}))
    assert (told.partitions, told.kept, told.taken) == (2, 1, 1)
    assert told.refused[1].reason == "outside the first partition; only this one is delegated"
    assert "(1 of 6 operators, 1 partition of 2)" in told.sentence
    model = read(float_model)
    largest, first = (
        delegate_operators(model, rules("CONV_2D", "SOFTMAX", keeps={"pieces": 1, "choose": which})).taken_macs
        for which in ("largest", "first")
    )
    every = delegate_operators(model, rules("CONV_2D")).taken_macs
    assert max(first, every - first) == largest


def test_pieces_below_the_least_number_of_operators_stay_behind(float_model: Path) -> None:
    told = delegate_operators(read(float_model), rules("CONV_2D", least_operators=2))
    assert (told.kept, told.taken) == (0, 0)
    assert "in a partition of fewer than 2 operators" in told.reasons


@given(left=st.sets(st.integers(0, 5)))
def test_a_chain_is_cut_wherever_a_run_of_taken_operators_begins(left: set[int]) -> None:
    taken = [index not in left for index in range(6)]
    runs = sum(now and not before for before, now in zip([False, *taken], taken, strict=False))
    found = form_partitions(CHAIN, left)
    assert len(found) == runs
    assert sorted(index for partition in found for index in partition) == [i for i in range(6) if taken[i]]


def test_forms_are_read() -> None:
    assert DataTypes.parse("float32") == DataTypes("float32")
    assert DataTypes.parse("float32*int8") == DataTypes("float32", "int8")
    assert DataTypes.parse("float32->int8") == DataTypes("float32", "", "int8")
    assert DataTypes.parse("int16 * int8 -> int16") == DataTypes("int16", "int8", "int16")


@pytest.mark.parametrize("text", ["", "*int8", "int8 or uint8", "a;b"])
def test_other_forms_are_refused(text: str) -> None:
    must_fail(ValueError, "is not a list of data types", DataTypes.parse, text)
