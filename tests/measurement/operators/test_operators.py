"""Profiles of real files through LiteRT's C library, and their advice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.errors import StageError, UsageError
from advisor.measurement.latency.findings import advise_threads
from advisor.measurement.latency.timing import measure
from advisor.measurement.operators.profile import advise, profile
from advisor.measurement.operators.profile_values import Profile
from advisor.measurement.operators.runs import (
    ProfiledRun,
    ProfilerEvent,
    adds_up,
    coverage,
    interquartile_mean,
    partitions,
    undisturbed,
)
from tests.measurement import small_models

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "models"
FOREIGN = SHARED / "tf2_mobilenet_v2_1.0_224_ptq.tflite"


@pytest.fixture(scope="module")
def swish_profile(starts_processes: None, swish_model: Path) -> Profile:
    return profile(swish_model, with_roofline=False)


def run_of(whole: float, *times: float, tag: str = "CONV_2D") -> ProfiledRun:
    return ProfiledRun(whole, tuple(ProfilerEvent(tag, 2, index, value) for index, value in enumerate(times)))


def test_every_operator_is_there_with_its_place_and_share(swish_profile: Profile) -> None:
    swishes = [row for row in swish_profile.operators if row.type == "HARD_SWISH"]
    assert len(swishes) == 3
    assert {row.where for row in swishes} == {"builtin"}
    assert sum(row.share for row in swish_profile.operators) == pytest.approx(1)
    assert swish_profile.operators[-1].cumulative == pytest.approx(1)
    assert [row.position for row in swish_profile.operators] == list(range(len(swish_profile.operators)))


def test_operators_add_up_to_the_whole(swish_profile: Profile) -> None:
    assert 0.9 <= swish_profile.coverage <= 1.02
    assert swish_profile.runs >= 3


def test_totals_are_those_of_the_file(swish_profile: Profile) -> None:
    assert swish_profile.macs == 64 * 64 * 32 * 3 + 32 * 4
    assert swish_profile.arena_bytes >= 2 * 64 * 64 * 32  # an activation's int8 input and output
    assert swish_profile.runtime == "ai-edge-litert==2.3.0"
    assert swish_profile.notes == ()


def test_types_are_summed_from_the_slowest(swish_profile: Profile) -> None:
    first = swish_profile.by_type[0]
    assert (first.type, first.where, first.count, first.data_type) == ("HARD_SWISH", "builtin", 3, "int8")
    assert swish_profile.by_type[-1].cumulative == pytest.approx(1)


def test_advice_names_the_operator_that_xnnpack_does_not_take(swish_profile: Profile) -> None:
    first = swish_profile.advice[0]
    assert "of the time is HARD_SWISH outside XNNPACK (3 operators, int8)" in first
    assert "relu6" in first


@pytest.mark.integration
def test_builtin_kernels_can_be_asked_for(float_model: Path) -> None:
    found = profile(float_model, kernels="builtin", with_roofline=False)
    assert {row.where for row in found.operators} == {"builtin"}
    assert [row.type for row in found.operators][:3] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"]


@pytest.mark.integration
def test_a_run_of_microseconds_says_that_it_is_rough(float_model: Path) -> None:
    found = profile(float_model, with_roofline=False)
    assert found.coverage >= 0.9 or any("short for a clock of microseconds" in note for note in found.notes)


def test_json_holds_everything(swish_profile: Profile) -> None:
    data = json.loads(json.dumps(swish_profile.to_json()))
    assert data["schema_version"] == 1
    assert data["advice"] == list(swish_profile.advice)
    assert len(data["operators"]) == len(swish_profile.operators)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_file_is_refused_before_any_child_starts(tmp_path: Path, float_model: Path, share: float) -> None:
    data = float_model.read_bytes()
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(data[: int(share * len(data))])
    with pytest.raises(UsageError, match=r"broken.tflite is not a usable .tflite file"):
        profile(broken)


@pytest.mark.integration
def test_an_open_shape_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "open.tflite"
    path.write_bytes(small_models.classifier(open_shape=True))
    with pytest.raises(StageError, match="unknown dimensions"):
        profile(path, with_roofline=False)


def test_wrong_numbers_are_refused(float_model: Path) -> None:
    with pytest.raises(UsageError, match="cannot be profiled"):
        profile(float_model, threads=0)


def test_preempted_runs_are_left_out() -> None:
    runs = [run_of(100, 60, 38), run_of(101, 61, 38), run_of(102, 61, 39), run_of(4100, 4060, 38)]
    assert [row.whole_us for row in undisturbed(runs)] == [100, 101, 102]


def test_runs_with_another_list_of_events_are_left_out() -> None:
    runs = [run_of(100, 60, 38)] * 3 + [run_of(100, 98, tag="ADD")]
    assert len(undisturbed(runs)) == 3


def test_operators_that_do_not_add_up_are_rejected() -> None:
    assert adds_up([run_of(1000, 600, 380)])
    assert not adds_up([run_of(1000, 300, 300)])
    assert not adds_up([run_of(1000, 800, 400)])
    assert adds_up([run_of(12, 5, 4)])
    assert coverage([run_of(0, 1)]) == 0


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_interquartile_mean_lies_among_the_values(values: list[float]) -> None:
    assert min(values) * (1 - 1e-9) <= interquartile_mean(values) <= max(values) * (1 + 1e-9)


def test_interquartile_mean_ignores_the_outer_quarters() -> None:
    assert interquartile_mean([0, 5, 6, 7, 8, 1000, 1000, 0]) == pytest.approx(6.5)


def test_partitions_are_counted_where_the_delegate_starts_anew() -> None:
    inside = [ProfilerEvent("Add (ND)", 8, index, 1.0) for index in range(3)]
    builtin = ProfilerEvent("SOFTMAX", 2, 7, 1.0)
    assert partitions([]) == 0
    assert partitions([builtin]) == 0
    assert partitions([*inside, builtin, *inside, *inside]) == 3


def test_advice_on_conversions_and_partitions_has_its_evidence(swish_profile: Profile) -> None:
    row = next(row for row in swish_profile.operators if row.type == "HARD_SWISH")
    converted = replace(swish_profile, operators=(replace(row, type="QUANTIZE", share=1.0),), partitions=5)
    assert any("100% of the time converts between types" in text for text in advise(converted))
    assert any("enters XNNPACK 5 times, because QUANTIZE" in text for text in advise(converted))


@pytest.mark.integration
def test_threads_are_advised_only_from_a_quiet_machine(float_model: Path) -> None:
    timing = measure(float_model, [1, 2], "search", retry=False)
    calm = tuple(replace(row, contended=False) for row in timing.results)
    faster = (calm[0], replace(calm[1], wall=replace(calm[1].wall, median=calm[0].wall.median / 2)))
    assert advise_threads(replace(timing, results=faster))[0].startswith("2 threads are 2.0x faster without other load")
    disturbed = (calm[0], replace(calm[1], contended=True))
    assert "contended at 2 threads" in advise_threads(replace(timing, results=disturbed))[0]
    assert advise_threads(replace(timing, results=calm[:1])) == ()


@pytest.mark.integration
@pytest.mark.skipif(not FOREIGN.exists(), reason="needs ../shared/data/models, which is not part of the project")
def test_a_file_made_by_others_is_profiled_to_the_last_convolution() -> None:
    found = profile(FOREIGN)
    assert found.macs == pytest.approx(300.8e6, rel=0.001)  # MobileNetV2 1.0 at 224: 300 million (Sandler et al. 2018)
    assert found.coverage >= 0.9
    kinds = {row.type: row.count for row in found.by_type}
    assert (kinds["CONV_2D"], kinds["DEPTHWISE_CONV_2D"]) == (36, 17)
    assert found.roofline is not None
