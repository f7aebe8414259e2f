"""The files of a fleet."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from advisor.core import Evaluation, Limits
from advisor.engine import LoadedRun
from advisor.integrations.fleet import read_fleet
from advisor.integrations.fleet._answer import FleetAnswer, answer_for, fleet_answer
from advisor.integrations.fleet._choice import choose_files, total_value
from advisor.integrations.fleet._predictions import Matrix, predict_matrix
from tests.integrations.fleet.fleets import PHONES, fleet_run, rows

pytestmark = pytest.mark.integration

VALUES = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 7)),
    elements=st.integers(-3, 9).map(float) | st.floats(0, 9),
)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    files = [replace(each, artefact=f"{i}.tflite", artefact_sha256=str(i)) for i, each in enumerate(rows())]
    return predict_matrix(read_fleet(PHONES), files, Limits(latency_ms=20.0))


def answer(matrix: Matrix, budget_ms: float = 17.5, fleet: str = PHONES) -> FleetAnswer:
    return answer_for(read_fleet(fleet), replace(matrix, limits=Limits(latency_ms=budget_ms)))


def names(files: tuple[Evaluation, ...]) -> list[str]:
    return [each.configuration.card for each in files]


def test_fast_phones_get_the_accurate_file_and_slow_ones_the_floor(matrix: Matrix) -> None:
    found = answer(matrix)
    three = found.options[2]
    assert names(three.files)[0] == "mobilenet_v1_0.25_224"
    by_name = {each.phone.name: each for each in three.phones}
    assert by_name["Snapdragon 8 Gen 3"].tier > by_name["Helio G99"].tier > by_name["Snapdragon 425"].tier
    assert all(each.sure for each in three.phones)
    assert three.sure_share == pytest.approx(1)


def test_more_files_keep_more_of_a_file_for_each_phone_and_none_adds_nothing(matrix: Matrix) -> None:
    found = answer(matrix)
    assert list(found.kept) == sorted(found.kept)
    assert found.kept[-1] == pytest.approx(1)
    assert found.each_device == (pytest.approx(found.options[2].accuracy), 3)
    narrow = replace(matrix, phones=matrix.phones[1:2], rows=matrix.rows[1:2])
    found = answer_for(read_fleet("soc,share\nSnapdragon 8 Gen 3,1\n"), narrow)
    assert len(found.options) == 1
    assert "no further file adds anything to 1 file, so 2 are not offered" in found.notes
    assert found.with_files(3) is found.options[0]
    two = replace(matrix, phones=matrix.phones[::2], rows=matrix.rows[::2])
    found = answer(two, 6.0)  # the slow phone is sure to meet it with no file, and likely with another one
    assert names(found.options[0].files) == ["mobilenet_v1_0.25_224"]
    assert found.options[-1].sure_share == found.options[0].sure_share == pytest.approx(5 / 7)
    assert [len(option.files) for option in found.options] == [1]
    assert any("no further file adds anything to 1 file" in note for note in found.notes)


def test_the_figures_are_weighted_by_share(matrix: Matrix) -> None:
    one = answer(matrix).options[0]
    accuracies = [one.files[each.tier].accuracy for each in one.phones]
    weighted = [a.value * p.phone.share for a, p in zip(accuracies, one.phones, strict=True) if a]
    assert one.accuracy == pytest.approx(sum(weighted))
    expected = sum((each.probability or 0) * each.phone.share for each in one.phones)
    assert one.met_share == pytest.approx(expected)
    assert one.worst.probability == min(each.probability or 0 for each in one.phones)


def test_the_reason_names_what_the_last_file_adds_and_what_one_more_would(matrix: Matrix) -> None:
    found = answer(matrix)
    assert found.reason.startswith(found.option.sentence)
    assert "points on average" in found.reason
    assert found.runner_up
    assert any("the latency budget is" in flip for flip in found.flips)


def test_a_budget_that_nobody_meets_gives_the_floor_and_another_limit_keeps_a_file_from_all(matrix: Matrix) -> None:
    found = answer(matrix, budget_ms=0.01)
    assert found.option.sure_share == 0
    assert "no file is sure to meet 0.01 ms on any phone: the floor is mobilenet_v1_0.25_224" in found.notes[-1]
    assert "its slowest phone needs a budget of" in found.notes[-1]
    limits = Limits(latency_ms=50.0, size_bytes=1_000_000)
    found = answer_for(read_fleet(PHONES), replace(matrix, limits=limits))
    served = {each.tier for each in found.options[-1].phones if each.sure}
    assert {names(found.options[-1].files)[tier] for tier in served} == {"mobilenet_v1_0.25_224"}
    values, sure = matrix.values(), matrix.sure()
    assert np.all(values[sure == 0] < 0.01)
    assert np.all(values[sure > 0] > 1)


def test_a_run_is_answered_once_for_all_its_reports(tmp_path: Path) -> None:
    run = LoadedRun.load(fleet_run(tmp_path).path)
    first = fleet_answer(run.question, run.evaluations)
    assert fleet_answer(run.question, run.evaluations) is first
    other = replace(run.question, limits=replace(run.question.limits, latency_ms=5.0))
    assert fleet_answer(other, run.evaluations) is not first


@given(VALUES, st.integers(1, 3))
@settings(max_examples=150)
def test_no_other_set_of_as_many_files_has_a_larger_total(values: np.ndarray, count: int) -> None:
    found = choose_files(values, count)
    others = combinations(range(values.shape[1]), min(count, values.shape[1]))
    assert total_value(values, found) >= max(total_value(values, files) for files in others) - 1e-9


@given(VALUES)
def test_a_file_that_another_beats_everywhere_is_not_taken(values: np.ndarray) -> None:
    found = choose_files(values, 3)
    for one, other in combinations(found, 2):
        assert not (values[:, one] <= values[:, other]).all()
        assert not (values[:, other] <= values[:, one]).all()


def test_files_are_named_once_and_in_order() -> None:
    values = np.array([[1.0, 3.0, 2.0], [3.0, 1.0, 2.0]])
    assert choose_files(values, 2) == (0, 1)
    assert choose_files(values, 1) == (0,)
    assert choose_files(values[:1], 3) == (1,)
