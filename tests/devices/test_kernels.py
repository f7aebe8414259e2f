"""Kernels: their files, their timing over a connection, and what a profile with kernels predicts."""

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from advisor.core import Provenance, StageError, UsageError
from advisor.devices import (
    CALIBRATED,
    SOURCE,
    DeviceProfile,
    HostConnection,
    Measurement,
    ModelFeatures,
    Predictor,
    Timing,
    _kernels as timing,
    host_profile,
)
from advisor.devices._kernel_files import MOST_COPIES, copies_of, kernel_file
from advisor.devices._kernels import kernels_to_time, rounds_us
from advisor.devices._latency.features import FeatureTable
from advisor.devices._latency.operator_times import model_operators
from advisor.devices._profiles import read_profile
from advisor.devices._profiles.measurements import KERNEL_COLUMNS, Kernel
from advisor.devices._profiles.storing import remove_profile, write_profile
from advisor.measurement._on_device.benchmark import benchmark_on_device
from advisor.reporting import print_device_benchmark
from advisor.tflite import Work, read
from advisor.tflite._macs import list_works
from tests.builders import interval, must_fail, write_file
from tests.devices.test_network_times import microseconds
from tests.measurement import small_models
from tests.tables import with_cases

SMALL = (Work("ADD", 64, 8, read=1024), Work("CONV_2D", 64, 8, 8, read=512), Work("MEAN", 1, 8, read=512))
LARGER = (*SMALL, Work("MUL", 64, 8, read=1024), Work("LOGISTIC", 64, 8, read=512))
NETWORKS = ("mobilenet_v1_0.25_128", "mobilenet_v1_0.25_160")
FORMS = ("float32", "int8")
NAME = "mobilenet_v2_1.0_224"


def one_of_each() -> list[Work]:
    """The first operator of the catalogue of each kind, window, stride and form of input."""
    every = sorted({work for works in model_operators().values() for work, _ in works if work.kind != "STRIDED_SLICE"})
    kinds = {(work.kind, work.taps, work.stride, work.read >= 2 * work.written): work for work in reversed(every)}
    return sorted(kinds.values())


@pytest.mark.parametrize("work", one_of_each(), ids=lambda work: f"{work.kind}-{work.pixels}-{work.taps}-{work.stride}")
def test_a_file_has_its_operator_in_both_forms(work: Work) -> None:
    data = kernel_file(work, 2)
    found = list_works(read(data))
    assert found == (replace(work, read=found[0].read),) * 2
    assert found[0].read in (work.read, work.read - work.channels)  # a vector is constant
    stored = read(timing.as_int8(data))
    assert {operator.name for operator in stored.operators} == {work.kind}
    assert {tensor.dtype for tensor in (*stored.inputs, *stored.outputs)} == {"int8"}


def test_the_operators_of_the_networks_are_timed_once_in_each_form() -> None:
    board = host_profile()
    wanted = kernels_to_time(board, board.target("cpu-x1"), FORMS, NETWORKS)
    works = {work for name in NETWORKS for work, _ in model_operators()[name]}
    assert len(wanted) == len(set(wanted)) == 2 * len(works)
    assert wanted == kernels_to_time(board, board.target("cpu-x1"), FORMS, reversed(NETWORKS))
    assert [work for work, _ in wanted] != sorted(work for work, _ in wanted)


def test_kernels_that_the_target_has_are_not_timed_again() -> None:
    board = host_profile()
    first, *others = kernels_to_time(board, board.target("cpu-x1"), FORMS, NETWORKS)
    timed = replace(board, kernels=(Kernel("cpu-x1", first[1], first[0], 5.0),))
    assert kernels_to_time(timed, board.target("cpu-x1"), FORMS, NETWORKS) == others
    assert len(kernels_to_time(timed, board.target("cpu-x2"), FORMS, NETWORKS)) == len(others) + 1


def test_small_operators_are_copied_until_their_weights_fill_more_than_the_cache_of_a_core() -> None:
    assert copies_of(Work("SOFTMAX", 1, 10, read=10)) == MOST_COPIES
    assert copies_of(Work("CONV_2D", 3136, 64, 64, 9, read=200_704)) == 1
    late = Work("CONV_2D", 16, 1152, 192, read=16 * 192)
    assert copies_of(late) * late.weights > 2_000_000
    large = Work("CONV_2D", 49, 1024, 1024, read=49 * 1024)
    assert copies_of(large) * large.macs <= 200_000_000


def timed_here(
    works: Sequence[Work], folder: Path, *forms: str, connection: Any = None, tell: Any = None
) -> list[timing.TimedKernels]:
    """Time operators on one thread, by default on this machine in float32."""
    wanted = [(work, form) for work in works for form in forms or ("float32",)]
    board = host_profile().target("cpu-x1")
    return list(
        timing.time_kernels(connection or HostConnection(), board, wanted, folder, tell or (lambda _text: None))
    )


@pytest.mark.integration
def test_kernels_are_timed_on_this_machine_and_come_job_by_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "EFFORT", "load")  # what a round takes is of no interest
    monkeypatch.setattr(timing, "BATCH", 4)
    told: list[str] = []
    found = timed_here(SMALL, tmp_path, *FORMS, tell=told.append)
    kernels = [kernel for each in found for kernel in each.kernels]
    assert {(kernel.work, kernel.form) for kernel in kernels} <= {(work, form) for work in SMALL for form in FORMS}
    assert [len(each.kernels) + len(each.left_out) for each in found] == [4, 2]
    assert all(0 < kernel.microseconds < 1e5 for kernel in kernels)
    assert told[0] == "timing 6 kernels on host, in at least 0 s"
    assert [line.rpartition(",")[0] for line in told[1:]] == [f"timed {n} of 6 kernels on host" for n in (4, 6)]
    assert told[2].endswith("about 0 s left")


@pytest.mark.integration
def test_a_device_that_times_nothing_fails_soon(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import sys; sys.exit('no runtime here')")
    works = [Work("ADD", pixels, 8, read=16 * pixels) for pixels in (1, 4, 9, 16, 25, 36)]
    must_fail(StageError, "no runtime here", timed_here, works, tmp_path, connection=HostConnection(agent))


def timed(rounds_ns: list[int], cpu_ns: list[int] | None = None) -> Timing:
    blocks = [{"wall_ns": [time_ns], "cpu_ns": cpu_ns} for time_ns in rounds_ns]
    return Timing(Path(sys.executable), 1, 1.0, 8, 1.0, 1.0, "runtime", details={"blocks": blocks})


def test_the_usual_round_counts_in_cpu_time_where_it_is_known_and_the_second_best_shows_a_disturbance() -> None:
    assert rounds_us(timed([1000, 2000, 9000, 3000, 4000])) == (3.0, 2.0)
    usual, best = rounds_us(timed([1000, 1000, 4000, 4000, 4000, 4000]))
    assert usual > timing.UNSTEADY * best
    blocks = [{"wall_ns": [9000], "cpu_ns": [time_ns]} for time_ns in (1000, 2000, 3000)]
    assert rounds_us(replace(timed([]), details={"blocks": blocks})) == (2.0, 2.0)


@with_cases
def test_a_tool_without_rounds_gives_its_median(details: Mapping[str, Any], expected: list[float]) -> None:
    found = Timing(Path("a"), 1, 1.0, 8, 1.0, 1.0, "tflite benchmark_model", details=details)
    assert rounds_us(found) == pytest.approx(expected)


class Disturbed:
    """A device that is disturbed while it runs the first file, and not while it runs the others."""

    label = "host"

    def __init__(self, rounds_ns: list[int], waited_share: float | None) -> None:
        self._first, self._others = replace(timed(rounds_ns), waited_share=waited_share), timed([1000] * 3)
        self._disturbed = ""

    def measure(self, job: Any) -> tuple[Timing, ...]:
        self._disturbed = self._disturbed or job.models[0].name
        timings = {self._disturbed: self._first}
        return tuple(replace(timings.get(model.name, self._others), model=model) for model in job.models)


@with_cases
def test_a_disturbed_kernel_is_left_out_with_one_line(
    tmp_path: Path, rounds_ns: list[int], waited_share: float | None, reason: str
) -> None:
    (part,) = timed_here(LARGER, tmp_path, connection=Disturbed(rounds_ns, waited_share))
    assert part.left_out == (f"ADD 64 x 8, float32: {reason}",)
    assert len(part.kernels) == len(LARGER) - 1


class Hanging:
    """A device that gives no result where the fifth kernel is among the files."""

    label = "host"

    def measure(self, job: Any) -> tuple[Timing, ...]:
        if any("kernel4." in model.name for model in job.models):
            raise StageError("host: it did not end within 90 s")
        return tuple(replace(timed([1000] * 3), model=model) for model in job.models)


def test_a_kernel_that_times_out_is_left_out_with_one_line(tmp_path: Path) -> None:
    (part,) = timed_here(LARGER, tmp_path, connection=Hanging())
    assert len(part.kernels) == 4
    assert part.left_out == ("LOGISTIC 64 x 8, float32: host: it did not end within 90 s",)


@pytest.fixture(scope="module")
def board() -> DeviceProfile:
    works = sorted({work for works in model_operators().values() for work, _ in works})[::9]
    kernels = tuple(Kernel("cpu-x1", "float32", work, microseconds(work)) for work in works)
    return replace(host_profile(), name="our-board", kernels=kernels)


def test_kernels_are_written_read_and_removed_with_their_profile(board: DeviceProfile, tmp_path: Path) -> None:
    path = write_profile(board, tmp_path)
    read = read_profile(path)
    assert [kernel.work for kernel in read.kernels] == [kernel.work for kernel in board.kernels]
    assert read.kernels[0].microseconds == pytest.approx(board.kernels[0].microseconds, rel=1e-5)
    assert read.fingerprint() != replace(read, kernels=()).fingerprint()
    write_profile(replace(board, kernels=()), tmp_path)
    assert not read_profile(path).kernels
    write_profile(board, tmp_path)
    assert len(remove_profile("our-board", tmp_path)) == 3
    assert not list(tmp_path.iterdir())


@with_cases
def test_damage_is_refused_with_its_line(board: DeviceProfile, tmp_path: Path, row: str | None, reason: str) -> None:
    path = write_profile(replace(board, kernels=()), tmp_path)
    path.with_suffix(".kernels.csv").write_text(f"{','.join(KERNEL_COLUMNS)}\n{row}\n" if row else "a,b\n1,2\n")
    assert reason in must_fail(UsageError, r"our-board\.kernels\.csv:[12]: ", read_profile, path).message


def test_kernels_predict_a_network(board: DeviceProfile, predictor: Predictor, features: FeatureTable) -> None:
    (found,) = predictor.predict(board, board.target("cpu-x1"), "float32", [features.models[NAME]])
    assert found.latency.provenance is Provenance.PREDICTED
    assert found.latency.source == f"{SOURCE}, and no models"
    low, value, high = interval(found.latency)
    assert low < value < high < 1.3 * value
    assert found.probability(value) == pytest.approx(0.5)
    assert found.quantile(0.9) == pytest.approx(high)


def test_without_kernels_nothing_changes(board: DeviceProfile, predictor: Predictor, features: FeatureTable) -> None:
    model = features.models[NAME]
    plain = replace(board, kernels=())
    stranger = ModelFeatures("ours", "ours", model.macs, model.params, 224, 60)
    for form, name, each in (("int8", "cpu-x1", model), ("float32", "cpu-x2", model), ("float32", "cpu-x1", stranger)):
        target = board.target(name)
        assert predictor.predict(board, target, form, [each]) == predictor.predict(plain, target, form, [each])


def test_operators_count_before_the_name(board: DeviceProfile, predictor: Predictor, features: FeatureTable) -> None:
    target, model = board.target("cpu-x1"), features.models[NAME]
    works = tuple((kernel.work, 1) for kernel in board.kernels)
    own = replace(model, name="ours", operators=works)
    (found,) = predictor.predict(board, target, "float32", [own])
    assert found.latency.value == pytest.approx(sum(k.microseconds for k in board.kernels) / 1e3, rel=0.15)


def test_networks_correct_the_kernels(board: DeviceProfile, predictor: Predictor, features: FeatureTable) -> None:
    target, names = board.target("cpu-x1"), ("mobilenet_v1_1.0_224", "resnet_18_224", "squeezenet_1.1_227")
    (before,) = predictor.predict(board, target, "float32", [features.models[NAME]])
    others = [features.models[name] for name in names]
    rows = tuple(
        Measurement("cpu-x1", name, "float32", 1.1 * found.latency.value, source_repo=CALIBRATED)
        for name, found in zip(names, predictor.predict(board, target, "float32", others), strict=True)
    )
    (after,) = predictor.predict(replace(board, measurements=rows), target, "float32", [features.models[NAME]])
    assert after.latency.value == pytest.approx(1.1 * before.latency.value, rel=0.03)
    assert after.latency.source == f"{SOURCE}, and 3 models"
    assert after.deviation < before.deviation


@pytest.mark.integration
def test_an_own_file_is_predicted_from_kernels(board: DeviceProfile, predictor: Predictor, tmp_path: Path) -> None:
    path = write_file(tmp_path / "ours.tflite", small_models.classifier())
    found = benchmark_on_device([path], board, board.target("cpu-x1"), None, lambda: predictor)
    (row,) = found.rows
    assert row.latency.source.startswith(SOURCE)
    shown = io.StringIO()
    print_device_benchmark(found, Console(file=shown, width=120))
    assert f"our-board:cpu-x1  predicted from {SOURCE}, not measured" in shown.getvalue()
