"""Choosing models, measuring them over a connection, what they change, and writing the profile."""

import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from advisor.catalog import Catalogue
from advisor.core import StageError, UsageError, show_ms
from advisor.core._errors import SeveralErrors
from advisor.devices import (
    CALIBRATED,
    PRECISIONS,
    DeviceProfile,
    DeviceTarget,
    HostConnection,
    Measurement,
    MeasurementJob,
    Predictor,
    Profiles,
    SshConnection,
    Timing,
    _kernels as kernels,
    host_profile,
)
from advisor.devices._calibration import networks as timed
from advisor.devices._calibration.calibrating import calibrate, check_target
from advisor.devices._calibration.decisive import PickForBudget
from advisor.devices._calibration.errors import calibration_report, estimate_error, list_changes
from advisor.devices._calibration.networks import Key, measure_networks, with_measurements, with_timings
from advisor.devices._connections import agent
from advisor.devices._latency.features import FeatureTable
from advisor.devices._latency.operator_times import model_operators
from advisor.devices._profiles import load_profiles, read_profile
from advisor.devices._profiles.measurements import read_measurements, write_measurements
from advisor.devices._profiles.storing import folder_of, own_folder, write_profile
from tests.builders import must_fail, write_file
from tests.makers.phones import SshServer
from tests.measurement import small_models
from tests.tables import read_table, with_cases

BOARD = replace(read_profile(Path(__file__).with_name("our-board.yaml")), origin=None)
TARGET = BOARD.target()
ON_ONE_PROCESSOR = read_table(__file__, "texts.yaml")["on_one_processor"]
BUSY = read_table(__file__, "texts.yaml")["busy"]
TWO = [{(name, "float32"): Path(f"{name}.tflite")} for name in ("first", "second")]
"""Two networks in one form."""
HEADER = "target,model,precision,latency_ms,statistic,flag\n"
GOOD = "cpu,net,int8,12.5,median,\n"
VERSIONED = "target,model,precision,latency_ms,runtime_version\ncpu,net,int8,12.5,"
letters = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"])
names = st.text(letters, min_size=1, max_size=8)
rows = st.builds(
    Measurement,
    target=st.just("cpu"),
    model=names,
    precision=st.sampled_from(PRECISIONS),
    latency_ms=st.floats(1e-3, 1e6).map(lambda value: float(f"{value:.6g}")),
    peak_memory_bytes=st.none() | st.integers(0, 2**40),
    source_repo=names,
    job=names,
    input_side=st.none() | st.integers(1, 1024),
    graph=names,
    runtime_version=st.sampled_from(["", "unstated", "2.17.0", "qairt2.50.0"]),
)


def test_models_to_measure_are_small_large_and_of_many_kinds(predictor: Predictor, features: FeatureTable) -> None:
    cards = [features.models[name] for name in Catalogue.load() if name in features.models]
    costs = {model.name: model.params / 25e6 for model in cards}
    chosen = [features.models[name] for name in predictor.most_informative(BOARD, TARGET, "float32", costs, 5)]
    assert len(set(chosen)) == 5
    assert max(model.macs for model in chosen) > 1e9 > 1e8 > min(model.macs for model in chosen)
    assert len({model.family for model in chosen}) >= 3
    assert min(model.traits.depthwise for model in chosen) <= 0.5 < max(model.traits.depthwise for model in chosen)
    assert any(model.traits.depthwise > 0.9 for model in chosen)


@pytest.mark.parametrize("budget_ms", [15.0, 150.0])
def test_four_networks_that_are_chosen_one_by_one_find_the_best_one_for_a_budget(
    predictor: Predictor, profiles: Profiles, features: FeatureTable, budget_ms: float
) -> None:
    cards = {name: card for name, card in Catalogue.load().items() if not card.by_file}
    truth = {
        row.model: 1.3 * row.latency_ms
        for row in profiles["orange-pi-5"].measurements
        if row.usable and (row.target, row.precision) == ("ncnn-cpu-x4", "float32") and row.model in cards
    }
    rated = {name: cards[name].top1() or 0.0 for name in truth}
    models = tuple(features.models[name] for name in truth)
    decision, now = PickForBudget(predictor, TARGET, models, rated, budget_ms), [BOARD]
    seen = dict[Key, float]()
    for name in decision.names(lambda: now[0], 4):
        assert (name, "float32") not in seen
        seen[name, "float32"] = truth[name]
        now[0] = with_measurements(BOARD, TARGET, seen)
    picked, _, rest = decision.pick(now[0]).partition(" ")
    assert rest == f"is the most accurate that meets {show_ms(budget_ms)} with 90 %"
    assert truth[picked] <= budget_ms
    assert rated[picked] >= max(rated[name] for name in truth if truth[name] <= budget_ms) - 1


def test_before_any_measurement_no_network_meets_a_budget(predictor: Predictor, features: FeatureTable) -> None:
    decision = PickForBudget(predictor, TARGET, (features.models["vgg16_224"],), {"vgg16_224": 71.0}, 0.5)
    assert decision.pick(BOARD) == "no network meets 0.50 ms with 90 % yet"


def test_large_downloads_are_chosen_last_and_models_that_no_table_knows_are_refused(predictor: Predictor) -> None:
    costs = {"vgg16_224": 500.0, "resnet_50_224": 0.0, "mobilenet_v2_1.0_224": 0.0, "resnet_18_224": 0.0}
    chosen = predictor.most_informative(BOARD, TARGET, "float32", costs, 3)
    assert "vgg16_224" not in chosen
    with pytest.raises(UsageError, match="none of these models"):
        predictor.most_informative(BOARD, TARGET, "float32", {"stranger": 0.0}, 5)


def test_a_like_boards_figures_lower_errors(predictor: Predictor, profiles: Profiles, features: FeatureTable) -> None:
    like = profiles["orange-pi-5"]
    truth = {
        row.model: 1.3 * row.latency_ms
        for row in like.measurements
        if row.usable and (row.target, row.precision) == ("ncnn-cpu-x4", "float32") and row.model in features.models
    }
    available = [features.models[name] for name in truth]
    chosen = predictor.most_informative(BOARD, TARGET, "float32", dict.fromkeys(truth, 0.0), 6)
    after = with_measurements(BOARD, TARGET, {(name, "float32"): truth[name] for name in chosen})
    report = calibration_report(predictor, BOARD, after, TARGET, available, "float32")
    assert set(report.models) == set(chosen)
    assert len(report.before) == len(report.after) == 6
    assert report.median_after < report.median_before
    assert report.expected_after < report.expected_before
    assert report.contradicting == {}
    wrong = with_measurements(after, TARGET, {(chosen[0], "float32"): 5 * truth[chosen[0]]})
    named = calibration_report(predictor, BOARD, wrong, TARGET, available, "float32").contradicting
    assert named == {chosen[0]: pytest.approx(truth[chosen[0]], rel=0.5)}


def test_a_report_is_of_the_new_measurements_only(predictor: Predictor, features: FeatureTable) -> None:
    before = with_measurements(BOARD, TARGET, {("resnet_18_224", "float32"): 60.0})
    after = with_measurements(before, TARGET, {("mobilenet_v2_1.0_224", "float32"): 20.0})
    models = [features.models[name] for name in ("resnet_18_224", "mobilenet_v2_1.0_224")]
    assert calibration_report(predictor, before, after, TARGET, models, "float32").models == ("mobilenet_v2_1.0_224",)


def test_new_measurements_replace_old_ones_of_the_same_models(features: FeatureTable) -> None:
    old = Measurement("cpu-x4", "vgg16_224", "float32", 900.0, source_repo="elsewhere")
    kept = Measurement("cpu-x4", "alexnet_227", "float32", 90.0, source_repo="elsewhere")
    after = with_measurements(replace(BOARD, measurements=(old, kept)), TARGET, {("vgg16_224", "float32"): 700.0})
    assert {(row.model, row.latency_ms, row.source_repo) for row in after.measurements} == {
        ("alexnet_227", 90.0, "elsewhere"), ("vgg16_224", 700.0, CALIBRATED)
    }  # fmt: skip


def test_a_written_profile_reads_back_and_one_in_place_survives_one_that_is_refused(tmp_path: Path) -> None:
    calibrated = with_measurements(BOARD, TARGET, {("vgg16_224", "float32"): 300.0, ("resnet_18_224", "int8"): 31.25})
    path = write_profile(calibrated, tmp_path)
    assert read_profile(path) == calibrated
    assert sorted(p.name for p in tmp_path.iterdir()) == ["our-board.csv", "our-board.yaml"]
    assert load_profiles([tmp_path])["our-board"].measurements == calibrated.measurements
    path = write_profile(BOARD, tmp_path)
    before = path.read_bytes()
    must_fail(UsageError, "", write_profile, replace(BOARD, kind="toaster"), tmp_path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["our-board.csv", "our-board.yaml"]


@pytest.mark.parametrize("name", ["../escape", "a b", "host"])
def test_a_name_that_the_schema_refuses_is_not_written(tmp_path: Path, name: str) -> None:
    must_fail(UsageError, "", write_profile, replace(BOARD, name=name), tmp_path / "folder")
    assert not list(tmp_path.glob("*.yaml"))
    assert not list(tmp_path.glob("folder/*.yaml"))


@pytest.fixture
def board() -> DeviceProfile:
    return replace(host_profile(), name="our-board")


@pytest.mark.parametrize("change", [{"runtime": "ncnn"}, {"accelerator": "npu"}, {"precisions": ("int16x8",)}])
def test_only_cpu_targets_of_float_or_int8_are_calibrated(board: DeviceProfile, change: dict[str, object]) -> None:
    check_target(board, board.target("cpu-x1"))
    other = DeviceTarget(**{**vars(board.target("cpu-x1")), "name": "other", **change})
    with pytest.raises(UsageError, match="our-board:other cannot be calibrated") as refused:
        check_target(replace(board, targets=(*board.targets, other)), other)
    assert "cpu-x1" in refused.value.hint


def test_a_target_of_another_build_is_refused_with_the_targets_to_use_instead(profiles: Profiles) -> None:
    pi = profiles["raspberry-pi-4"]
    words = "raspberry-pi-4:tflite-cpu-x4-ruy cannot be calibrated: its build computes with ruy, .* one with xnnpack"
    refused = must_fail(UsageError, words, check_target, pi, pi.target("tflite-cpu-x4-ruy"))
    assert "raspberry-pi-4:tflite-cpu-x4," in refused.hint
    assert "ruy" not in refused.hint


def on_one_processor(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> HostConnection:
    """Return this machine, where all threads of the agent, and ``more``, share one processor."""
    monkeypatch.setattr(timed, "EFFORT", "survey")
    (folder / "agent.py").write_text(ON_ONE_PROCESSOR.format(more=more, agent=str(HostConnection().agent)))
    return HostConnection(folder / "agent.py")


@pytest.fixture
def network(tmp_path: Path) -> dict[Key, Path]:
    """A network of some milliseconds, in one form."""
    return {("first", "float32"): small_models.saved(tmp_path, small_models.swish_net(512, 64), "first.tflite")}


def nothing(*_: object) -> None:
    """Show no progress."""


@pytest.mark.integration
def test_at_one_thread_the_cpu_time_is_kept_while_other_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: dict[Key, Path], board: DeviceProfile
) -> None:
    monkeypatch.setattr(agent, "THROTTLED", 9.0)  # what slows it down is no heat
    found = measure_networks(on_one_processor(tmp_path, monkeypatch, BUSY), [network], 1, nothing, nothing)
    timing = found.timings["first", "float32"]
    assert found.left_out == ()
    assert timing.own_ms < 0.8 * timing.median_ms
    assert "; other programs disturbed 1 of 1 timing: first float32 took" in found.clock
    (row,) = with_timings(board, board.target("cpu-x1"), found.timings).measurements
    assert (row.latency_ms, row.statistic) == (timing.cpu_ms, "cpu_median")


@pytest.mark.integration
def test_with_threads_nothing_that_waited_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: dict[Key, Path]
) -> None:
    words = r"host: no network could be measured: first float32: its threads waited \d\d% of the time for a processor"
    with pytest.raises(StageError, match=words) as refused:
        measure_networks(on_one_processor(tmp_path, monkeypatch), [network], 2, nothing, nothing)
    assert "close other programs on the device, or name a target with fewer threads" in refused.value.hint


def timing(ms: float) -> Timing:
    return Timing(Path("a.tflite"), 1, ms, 8, ms, ms, "tflite", cpu_ms=ms)


class Changing:
    """A device that runs every file in 10 ms, and the files of one call otherwise: it is hot, or has a load."""

    label = "host"

    def __init__(self, call: int, **changes: object) -> None:
        self._call, self._changes, self._calls = call, changes, 0

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        self._calls += 1
        changes = self._changes if self._calls == self._call else {}
        return tuple(replace(timing(10.0), model=path, **changes) for path in job.models)  # type: ignore[arg-type]


def test_a_disturbed_network_is_left_out_by_name_and_the_others_are_kept() -> None:
    seen = list[tuple[set[Key], set[Key]]]()
    connection = Changing(1, cpu_ms=None, waited_share=0.45)
    found = measure_networks(connection, TWO, 1, nothing, lambda new, before: seen.append((set(new), set(before))))
    assert set(found.timings) == {("second", "float32")}
    assert found.left_out == ("first float32: its threads waited 45% of the time for a processor",)
    assert seen == [(set(), set()), ({("second", "float32")}, set())]


def test_a_device_that_slows_down_between_networks_is_refused_with_both_figures() -> None:
    words = "slowed down between the networks: first float32 took 10.0 ms at first and 13.0 ms at the end"
    refused = must_fail(StageError, words, measure_networks, Changing(3, cpu_ms=13.0), TWO, 1, nothing, nothing)
    assert "cool down" in refused.hint


def test_a_first_network_that_takes_as_long_at_the_end_is_no_matter_and_a_disturbed_end_is_named() -> None:
    told = list[str]()
    found = measure_networks(Changing(3, cpu_ms=10.5), TWO, 1, told.append, nothing)
    assert (len(found.timings), found.left_out) == (2, ())
    assert told == ["measuring first on host", "measuring second on host", "measuring the first network again on host"]
    found = measure_networks(Changing(3, cpu_ms=None, waited_share=0.3), TWO, 1, nothing, nothing)
    assert len(found.timings) == 2
    (line,) = found.left_out
    assert line.startswith("first float32 at the end, which shows if the device slowed down: ")


def test_each_network_says_what_it_changed(board: DeviceProfile, predictor: Predictor, features: FeatureTable) -> None:
    target, models = board.target("cpu-x1"), list(features.models.values())
    first = {("mobilenet_v2_1.0_224", "int8"): timing(3.0)}
    # On x86, int8 MobileNetV3 is slow for its MACs: timings that contradict this are doubted.
    second = {("resnet_50_224", "int8"): timing(20.0), ("mobilenet_v3_small_1.0_224", "int8"): timing(2.0)}
    steps = [with_timings(board, target, found) for found in ({}, first, first | second)]
    errors = [estimate_error(predictor, step, target, "int8", models) for step in steps]
    assert errors[2] < errors[1] < errors[0]
    change = f"the expected error of the others falls from {errors[0]:.0%} to {errors[2]:.0%}"
    assert list(list_changes(predictor, steps[0], steps[2], target, models, second)) == [
        f"resnet_50_224 int8 takes 20.0 ms; {change}",
        f"mobilenet_v3_small_1.0_224 int8 takes 2.00 ms; {change}",
    ]
    (same,) = list_changes(predictor, steps[1], steps[1], target, models, first)
    assert same == f"mobilenet_v2_1.0_224 int8 takes 3.00 ms; the expected error of the others stays {errors[1]:.0%}"
    models = [features.models["mobilenet_v2_1.0_224"]]
    (alone,) = list_changes(predictor, steps[0], steps[1], target, models, first)
    assert alone == "mobilenet_v2_1.0_224 int8 takes 3.00 ms"


def test_the_clock_is_named_where_it_is_cpu_time() -> None:
    assert timed.MeasuredNetworks({("a", "int8"): timing(5.0)}, ()).clock == "latencies are CPU times of one thread"
    assert timed.MeasuredNetworks({("a", "int8"): replace(timing(5.0), cpu_ms=None)}, ()).clock == ""


@with_cases
def test_the_governor_is_the_one_that_the_device_reports(load: object, governor: str) -> None:
    assert (
        timed.MeasuredNetworks({("a", "int8"): replace(timing(5.0), details={"load": load})}, ()).governor == governor
    )


def test_a_shipped_profile_is_copied_and_the_team_s_own_changed_in_place(profiles: Profiles, tmp_path: Path) -> None:
    shipped = profiles["raspberry-pi-4"]
    assert folder_of(shipped) == own_folder()
    assert folder_of(replace(shipped, origin=tmp_path / "raspberry-pi-4.yaml")) == tmp_path


@pytest.mark.slow
def test_a_board_is_calibrated_over_ssh(
    board: DeviceProfile, predictor: Predictor, ssh_server: SshServer, tmp_path: Path
) -> None:
    connection = SshConnection("device", sys.executable, program=ssh_server.client)
    own = replace(board, origin=tmp_path / "our-board.yaml")
    told: list[str] = []
    networks = ["mobilenet_v1_0.25_128", "mobilenet_v1_0.25_160"]
    found = calibrate(own, own.target("cpu-x1"), connection, predictor, 2, told.append, networks, kernels=True)
    assert found.runtime.startswith("ai-edge-litert==")
    kept = read_profile(found.path)
    assert [(row.precision, row.statistic) for row in kept.measurements] == [
        ("float32", "cpu_median"), ("int8", "cpu_median"),
    ] * 2  # fmt: skip
    assert {kernel.form for kernel in kept.kernels} == {"float32", "int8"}
    operators = {work for name in networks for work, _ in model_operators()[name]}
    assert len(kept.kernels) + len(found.left_out) == 2 * len(operators)
    assert [report.form for report in found.reports] == ["float32", "int8"]
    assert any(line.startswith("int8: expected median error") for line in told)
    assert " int8 takes " in told[-1]
    assert told[-1].endswith("; measuring the first network again on device")


class Stated:
    """A board that runs every network in the stated time, in milliseconds."""

    label = "board"

    def __init__(self, stated: Mapping[str, float]) -> None:
        self._stated = stated

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        timings = {path: timing(self._stated[path.stem.rpartition("-")[0]]) for path in job.models}
        return tuple(replace(found, model=path, threads=1) for path, found in timings.items())


@pytest.mark.integration
def test_a_budget_shows_the_pick_of_each_network(board: DeviceProfile, predictor: Predictor, tmp_path: Path) -> None:
    own, told = replace(board, origin=tmp_path / "our-board.yaml"), list[str]()
    stated, target = {"tinynet_e_106": 4.0, "tinynet_d_152": 6.0}, own.target("cpu-x1")
    found = calibrate(own, target, Stated(stated), predictor, 2, told.append, list(stated), budget_ms=5.0)
    assert found.pick == "tinynet_e_106 is the most accurate that meets 5.00 ms with 90 %"
    assert told[-1].endswith(f"; {found.pick}; measuring the first network again on board")


class Unplugged:
    """This machine, which can be reached for one job."""

    label = "board"

    def __init__(self) -> None:
        self.jobs = 0

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        self.jobs += 1
        if self.jobs > 1:
            raise StageError("the board was unplugged")
        return HostConnection().measure(job)


@pytest.mark.integration
def test_kernels_that_were_timed_before_an_interruption_are_kept(
    board: DeviceProfile, predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "EFFORT", "load")
    monkeypatch.setattr(kernels, "BATCH", 6)
    own, networks = replace(board, origin=tmp_path / "our-board.yaml"), ["mobilenet_v1_0.25_128"]
    with pytest.raises(StageError, match="unplugged"):
        calibrate(own, own.target("cpu-x1"), Unplugged(), predictor, 1, list[str]().append, networks, kernels=True)
    kept = read_profile(tmp_path / "our-board.yaml")
    assert len(kept.kernels) == 6
    assert not kept.measurements
    left = kernels.kernels_to_time(kept, kept.target("cpu-x1"), ("float32", "int8"), networks)
    assert len(left) == 2 * len(model_operators()[networks[0]]) - 6


def read(tmp_path: Path, text: str) -> tuple[Measurement, ...]:
    path = write_file(tmp_path / "gadget.csv", text)
    return read_measurements(path, ["cpu"])


@with_cases
def test_a_bad_row_is_refused_with_file_and_line(tmp_path: Path, row: str, words: str) -> None:
    caught = must_fail(UsageError, words, read, tmp_path, f"{HEADER}{GOOD}{row}\n")
    assert f"{tmp_path}/gadget.csv:3:" in caught.message


def test_a_runtime_version_is_a_version(tmp_path: Path) -> None:
    for version in ("2", "1.30.0+qairt2.50.0", "xnnpack2022-02-08+armhf", "2.18.0-dev20240710", "unstated", ""):
        assert read(tmp_path, f"{VERSIONED}{version}\n")[0].runtime_version == version
    for version in ("latest", "tflite 2.17", "arm64"):
        with pytest.raises(UsageError, match=f"gadget.csv:2: runtime_version '{version}' is not a version"):
            read(tmp_path, f"{VERSIONED}{version}\n")


def test_all_bad_rows_are_reported_at_once_but_only_the_first_of_many(tmp_path: Path) -> None:
    rows = ["cpu,net,int8,-3,median,", "cpu,other,int8,3,median,", "cpu,net,int8,3,meen,", GOOD.strip()]
    caught = must_fail(SeveralErrors, "", read, tmp_path, HEADER + GOOD + "\n".join(rows) + "\n")
    assert [part.message.split(": ")[0].rsplit(":")[-1] for part in caught.parts] == ["3", "5", "6"]
    assert pickle.loads(pickle.dumps(caught)).message == caught.message
    caught = must_fail(UsageError, "", read, tmp_path, HEADER + "cpu,net,int8,-3,median,\n" * 50)
    assert len(caught.message.splitlines()) == SeveralErrors.SHOWN + 2
    assert caught.message.endswith("... and 30 more")


def test_the_same_figure_twice_and_a_file_that_is_not_text_are_refused(tmp_path: Path) -> None:
    must_fail(UsageError, "is already in line 2", read, tmp_path, HEADER + GOOD + GOOD)
    path = write_file(tmp_path / "gadget.csv", b"\xff\xfe\x00")
    must_fail(UsageError, "is not UTF-8", read_measurements, path, ["cpu"])


@with_cases
def test_a_bad_header_is_refused(tmp_path: Path, header: str, words: str) -> None:
    must_fail(UsageError, words, read, tmp_path, header)


@settings(max_examples=20)
@given(st.lists(rows, max_size=4, unique_by=lambda row: (row.model, row.precision, row.job)))
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, measurements: list[Measurement]) -> None:
    path = tmp_path_factory.mktemp("csv") / "gadget.csv"
    write_measurements(path, measurements)
    assert list(read_measurements(path, ["cpu"])) == measurements
