"""Profiles of real files, the operators that events belong to, and operators timed by cutting the file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import StageError, UsageError
from advisor.measurement import Profile, measure
from advisor.measurement._delegation import execution_order
from advisor.measurement._latency.session import advise_threads
from advisor.measurement._operators import runs
from advisor.measurement._operators.advice import advise_on
from advisor.measurement._operators.cuts import cut_prefix
from advisor.measurement._operators.matching import kind_of, list_nodes, match_events
from advisor.measurement._operators.profile import profile
from advisor.measurement._operators.roofline import measure_roofline
from advisor.measurement._operators.runs import (
    BY_CUTS,
    ProfiledRun,
    ProfilerEvent,
    adds_up,
    count_partitions,
    interquartile_mean,
    measure_coverage,
    select_undisturbed,
)
from advisor.measurement._processes import Reported
from advisor.tflite import read, to_float16
from tests.builders import must_fail, present
from tests.measurement import small_models

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "models"
FOREIGN = SHARED / "tf2_mobilenet_v2_1.0_224_ptq.tflite"
CONVOLUTION, DEPTHWISE, POINTWISE, MEAN, DENSE, SOFTMAX = range(6)


@pytest.fixture(scope="module")
def swish_profile(starts_processes: None, swish_model: Path) -> Profile:
    return profile(swish_model, with_roofline=False)


def run_of(whole: float, *times: float, tag: str = "CONV_2D") -> ProfiledRun:
    return ProfiledRun(whole, tuple(ProfilerEvent(tag, 2, index, value) for index, value in enumerate(times)))


def test_every_operator_has_its_place_and_share_and_the_advice_and_json_hold_it(swish_profile: Profile) -> None:
    swishes = [row for row in swish_profile.operators if row.type == "HARD_SWISH"]
    assert len(swishes) == 3
    assert {row.where for row in swishes} == {"builtin"}
    assert sum(row.share for row in swish_profile.operators) == pytest.approx(1)
    assert swish_profile.operators[-1].cumulative == pytest.approx(1)
    assert [row.position for row in swish_profile.operators] == list(range(len(swish_profile.operators)))
    first = swish_profile.advice[0]
    assert "of the time is HARD_SWISH outside XNNPACK (3 operators, int8)" in first
    assert "relu6" in first
    data = json.loads(json.dumps(swish_profile.to_json()))
    assert data["schema_version"] == 1
    assert data["advice"] == list(swish_profile.advice)
    assert len(data["operators"]) == len(swish_profile.operators)


def test_operators_and_types_add_up_to_the_whole_and_totals_are_those_of_the_file(swish_profile: Profile) -> None:
    assert 0.9 <= swish_profile.coverage <= 1.02
    assert swish_profile.runs >= 3
    assert swish_profile.macs == 64 * 64 * 32 * 3 + 32 * 4
    assert swish_profile.arena_bytes >= 2 * 64 * 64 * 32  # an activation's int8 input and output
    assert swish_profile.runtime == "ai-edge-litert==2.3.0"
    assert swish_profile.notes == ()
    first = swish_profile.by_type[0]
    assert (first.type, first.where, first.count, first.data_type) == ("HARD_SWISH", "builtin", 3, "int8")
    assert swish_profile.by_type[-1].cumulative == pytest.approx(1)


@pytest.mark.integration
def test_builtin_kernels_can_be_asked_for(float_model: Path) -> None:
    found = profile(float_model, kernels="builtin", with_roofline=False)
    assert {row.where for row in found.operators} == {"builtin"}
    assert [row.type for row in found.operators][:3] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"]


def test_wrong_numbers_are_refused(float_model: Path) -> None:
    must_fail(UsageError, "--threads: '0' is not a whole number from 1 to 64", profile, float_model, threads=0)
    must_fail(UsageError, "--threads: '1000000000'", profile, float_model, threads=10**9)
    must_fail(UsageError, "--runs: '0' is not a whole number from 1 to 10000", profile, float_model, threads=1, runs=0)


def test_preempted_runs_and_those_with_another_list_of_events_are_left_out() -> None:
    runs = [run_of(100, 60, 38), run_of(101, 61, 38), run_of(102, 61, 39), run_of(4100, 4060, 38)]
    assert [row.whole_us for row in select_undisturbed(runs)] == [100, 101, 102]
    runs = [run_of(100, 60, 38)] * 3 + [run_of(100, 98, tag="ADD")]
    assert len(select_undisturbed(runs)) == 3


def test_operators_that_do_not_add_up_are_rejected() -> None:
    assert adds_up([run_of(1000, 600, 380)])
    assert not adds_up([run_of(1000, 300, 300)])
    assert not adds_up([run_of(1000, 800, 400)])
    assert adds_up([run_of(12, 5, 4)])
    assert measure_coverage([run_of(0, 1)]) == 0


def test_interquartile_mean_ignores_the_outer_quarters() -> None:
    assert interquartile_mean([0, 5, 6, 7, 8, 1000, 1000, 0]) == pytest.approx(6.5)


def test_partitions_are_counted_where_the_delegate_starts_anew() -> None:
    inside = [ProfilerEvent("Add (ND)", 8, index, 1.0) for index in range(3)]
    builtin = ProfilerEvent("SOFTMAX", 2, 7, 1.0)
    assert count_partitions([]) == 0
    assert count_partitions([builtin]) == 0
    assert count_partitions([*inside, builtin, *inside, *inside]) == 3


def test_advice_on_conversions_and_partitions_has_its_evidence(swish_profile: Profile) -> None:
    row = next(row for row in swish_profile.operators if row.type == "HARD_SWISH")
    converted = replace(swish_profile, operators=(replace(row, type="QUANTIZE", share=1.0),), partitions=5)
    assert any("100% of the time converts between types" in text for text in advise_on(converted))
    assert any("enters XNNPACK 5 times, because QUANTIZE" in text for text in advise_on(converted))


@pytest.mark.integration
def test_threads_are_advised_only_from_a_quiet_machine(float_model: Path) -> None:
    timing = measure(float_model, [1, 2], "load", retry=False)
    calm = tuple(replace(row, contended=False) for row in timing.results)
    faster = (calm[0], replace(calm[1], wall=replace(calm[1].wall, median=calm[0].wall.median / 2)))
    assert advise_threads(replace(timing, results=faster))[0].startswith("2 threads are 2.0x faster without other load")
    disturbed = (calm[0], replace(calm[1], contended=True))
    assert "contended at 2 threads" in advise_threads(replace(timing, results=disturbed))[0]
    first = (replace(calm[0], contended=True), calm[1])
    assert "contended at 1 thread:" in advise_threads(replace(timing, results=first))[0]
    assert advise_threads(replace(timing, results=calm[:1])) == ()


@pytest.mark.integration
@pytest.mark.skipif(not FOREIGN.exists(), reason="needs ../shared/data/models, which is not part of the project")
def test_a_file_made_by_others_is_profiled_to_the_last_convolution_on_a_host_that_computes_and_moves() -> None:
    found = profile(FOREIGN, runs=3)
    assert found.macs == pytest.approx(300.8e6, rel=0.001)  # MobileNetV2 1.0 at 224: 300 million (Sandler et al. 2018)
    assert found.coverage >= 0.9
    kinds = {row.type: row.count for row in found.by_type}
    assert (kinds["CONV_2D"], kinds["DEPTHWISE_CONV_2D"]) == (36, 17)
    assert present(found.roofline).gflops > 0.1
    assert present(found.roofline).gbytes > 0.1
    assert found.roofline is measure_roofline()


def test_nodes_know_their_work() -> None:
    rows = list_nodes(read(small_models.classifier()))
    assert [row.name for row in rows][:3] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"]
    assert rows[CONVOLUTION].macs == 16 * 16 * 16 * 3 * 3 * 3
    assert rows[DEPTHWISE].macs == 16 * 16 * 16 * 3 * 3
    assert rows[POINTWISE].macs == 16 * 16 * 32 * 16
    assert rows[DENSE].macs == 32 * 4
    assert rows[SOFTMAX].macs == 0
    assert rows[CONVOLUTION].inputs == ("float32 1x32x32x3",)
    assert rows[DENSE].bytes_moved == 4 * (32 + 32 * 4 + 4 + 4)


def matched(*events: ProfilerEvent) -> list[int | None]:
    """The operators of the small classifier that events belong to, by their index."""
    return [node.index if node else None for node in match_events(read(small_models.classifier()), events)]


def test_xnnpack_events_meet_their_operators_by_kind_and_order() -> None:
    convolution, dense = "Convolution (NHWC, F32)", "Fully Connected (NC, F32) GEMM"
    tags = (f"{convolution} IGEMM", f"{convolution} DWConv", dense, "Mean (ND) Reduce", dense, "Copy (NC)")
    found = matched(*(ProfilerEvent(tag, 8, index, 1.0) for index, tag in enumerate(tags)))
    assert found == [CONVOLUTION, DEPTHWISE, POINTWISE, MEAN, DENSE, None]


def test_builtin_events_are_taken_by_their_index_and_a_kind_whose_counts_differ_stays_without_an_operator() -> None:
    fused = ProfilerEvent("Fully Connected (NC, F32) GEMM", 8, 0, 1.0)
    assert matched(fused, ProfilerEvent("Mean (ND) Reduce", 8, 1, 1.0)) == [None, MEAN]
    events = [("SOFTMAX", SOFTMAX), ("MEAN", SOFTMAX), ("MEAN", 99)]
    assert matched(*(ProfilerEvent(tag, 2, index, 1.0) for tag, index in events)) == [SOFTMAX, None, None]


def test_partitions_gather_what_is_ready_as_the_runtime_does() -> None:
    model = read(small_models.classifier())
    assert execution_order(model, set()) == [0, 1, 2, 3, 4, 5]
    assert execution_order(model, {MEAN}) == [0, 1, 2, 3, 4, 5]


def test_kinds_are_told_from_the_kernels_names() -> None:
    assert kind_of("Convolution (NHWC, QC8) DWConv") == {"DEPTHWISE_CONV_2D"}
    assert kind_of("Add (ND)") == {"ADD"}
    assert kind_of("Something New") is None


@pytest.mark.integration
def test_a_library_without_a_known_profiler_is_cut_and_the_cuts_find_what_the_profiler_finds(
    swish_model: Path, swish_profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Reported("the installed LiteRT lacks LiteRtStartProfiler", kind="runtime")

    monkeypatch.setattr(runs, "profile_runs", refuse)
    cut, seen = profile(swish_model, with_roofline=False), swish_profile
    assert cut.notes == (BY_CUTS, "the installed LiteRT lacks LiteRtStartProfiler")
    assert cut.by_type[0].type == seen.by_type[0].type == "HARD_SWISH"
    assert cut.partitions == seen.partitions
    assert {row.node.index: row.where for row in cut.operators if row.node} == {
        row.node.index: row.where for row in seen.operators if row.node
    }
    assert cut.macs == seen.macs


def test_a_profiler_that_crashes_is_replaced_by_cuts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def crash(request: runs.ProfileRequest, function: str, kernels: str, **_: int) -> runs.Collected:
        if function == runs.PROFILER:
            raise StageError("net.tflite: the measuring process was ended by signal 11 (SIGSEGV)")
        return runs.Collected("ai-edge-litert==2.3.0", [1.0], None, (), kernels)

    monkeypatch.setattr(runs.ProfileRequest, "run", crash)
    found = runs.collect_runs(runs.ProfileRequest(tmp_path / "net.tflite", 1, 5, "default", None), by_cuts=False)
    assert "SIGSEGV" in found.notes[1]


@pytest.mark.integration
def test_a_file_that_cannot_run_and_expanded_constants_are_no_cuts(tmp_path: Path, float_model: Path) -> None:
    path = small_models.saved(tmp_path, small_models.unknown_operator(), "custom.tflite")
    must_fail(StageError, "unresolved custom op: Nobody", profile, path, with_roofline=False)
    path = small_models.saved(tmp_path, to_float16(float_model.read_bytes()), "half.tflite")
    found = profile(path, by_cuts=True, with_roofline=False)
    assert "DEQUANTIZE" not in {row.type for row in found.operators}
    assert len(found.operators) == 6


def test_a_cut_file_ends_after_so_many_operators(float_model: Path) -> None:
    whole = read(float_model)
    for count in range(1, 7):
        cut = read(cut_prefix(float_model.read_bytes(), count, set()))
        assert [operator.name for operator in cut.operators] == [operator.name for operator in whole.operators[:count]]
        assert cut.outputs[-1].shape == whole.tensors[whole.operators[count - 1].outputs[0]].shape
        assert cut.size_bytes <= whole.size_bytes
