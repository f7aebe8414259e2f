"""Kernels beside a profile, and what a profile with kernels predicts."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from advisor.core.errors import UsageError
from advisor.core.quantity import Provenance
from advisor.devices.kernels.timing import design
from advisor.devices.latency.features import FeatureTable, ModelFeatures
from advisor.devices.prediction.predictor import CALIBRATED, Predictor
from advisor.devices.profiles import DeviceProfile, read_profile
from advisor.devices.profiles.host import host_profile
from advisor.devices.profiles.kernels import COLUMNS, SOURCE, Kernel
from advisor.devices.profiles.measurements import Measurement
from advisor.devices.profiles.team import remove_profile, write_profile
from advisor.measurement.on_device.benchmark import benchmark_on_device
from advisor.reporting.benchmark import print_device_benchmark
from tests.devices.test_network_times import microseconds
from tests.measurement import small_models

NAME = "mobilenet_v2_1.0_224"


@pytest.fixture(scope="module")
def board() -> DeviceProfile:
    """A board whose kernels were timed."""
    kernels = tuple(Kernel("cpu-x1", form, work, microseconds(work)) for form in ("float32",) for work in design())
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


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("cpu-x9,float32,ADD,1,1,1,1,1,1,5", "2: unknown target 'cpu-x9'"),
        ("cpu-x1,float31,ADD,1,1,1,1,1,1,5", "unknown form 'float31' (did you mean 'float32'?)"),
        ("cpu-x1,int8,ADD,1,1,1,1,1,1,0", "0 microseconds are not plausible"),
        ("cpu-x1,int8,ADD,1,1,1,1,1,1,nan", "nan microseconds are not plausible"),
        ("cpu-x1,int8,ADD,1.5,1,1,1,1,1,5", "invalid literal"),
        ("cpu-x1,int8,ADD,0,1,1,1,1,1,5", "a size is below 1"),
        ("cpu-x1,int8,ADD,1,1,1,1,1,5", "more or fewer fields"),
    ],
)
def test_a_damaged_row_is_refused_with_its_line(board: DeviceProfile, tmp_path: Path, row: str, reason: str) -> None:
    path = write_profile(replace(board, kernels=()), tmp_path)
    path.with_suffix(".kernels.csv").write_text(f"{','.join(COLUMNS)}\n{row}\n")
    with pytest.raises(UsageError) as refused:
        read_profile(path)
    assert "our-board.kernels.csv:2: " in refused.value.message
    assert reason in refused.value.message


def test_a_file_with_other_columns_is_refused(board: DeviceProfile, tmp_path: Path) -> None:
    path = write_profile(board, tmp_path)
    path.with_suffix(".kernels.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="the columns are not those of kernels"):
        read_profile(path)


def test_a_network_is_predicted_from_the_kernels_of_the_target(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable
) -> None:
    target, model = board.target("cpu-x1"), features.models[NAME]
    (found,) = predictor.predict(board, target, "float32", [model])
    assert found.latency.provenance is Provenance.PREDICTED
    assert found.latency.source == f"{SOURCE}, and no models"
    assert found.latency.low is not None
    assert found.latency.high is not None
    assert found.latency.low < found.latency.value < found.latency.high < 1.3 * found.latency.value
    assert found.probability(found.latency.value) == pytest.approx(0.5)
    assert found.quantile(0.9) == pytest.approx(found.latency.high)


def test_forms_targets_and_models_without_kernels_are_predicted_as_before(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable
) -> None:
    model = features.models[NAME]
    plain = replace(board, kernels=())
    stranger = ModelFeatures("ours", "ours", model.macs, model.params, 224, 60)
    for form, name, each in (("int8", "cpu-x1", model), ("float32", "cpu-x2", model), ("float32", "cpu-x1", stranger)):
        target = board.target(name)
        assert predictor.predict(board, target, form, [each]) == predictor.predict(plain, target, form, [each])


def test_a_form_that_is_like_a_timed_one_has_a_wider_interval(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable
) -> None:
    target, model = board.target("cpu-x1"), features.models[NAME]
    (plain,) = predictor.predict(board, target, "float32", [model])
    (like,) = predictor.predict(board, target, "weight_int8", [model])
    assert like.latency.value == plain.latency.value
    assert like.deviation > plain.deviation


def test_the_operators_of_a_file_count_before_those_of_its_name(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable
) -> None:
    target, model = board.target("cpu-x1"), features.models[NAME]
    works = tuple((kernel.work, 1) for kernel in board.kernels)
    own = replace(model, name="ours", operators=works)
    (found,) = predictor.predict(board, target, "float32", [own])
    assert found.latency.value == pytest.approx(sum(k.microseconds for k in board.kernels) / 1e3, rel=0.15)


def test_measured_networks_correct_the_kernels(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable
) -> None:
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
def test_a_file_of_ones_own_is_predicted_from_kernels_and_the_terminal_says_so(
    board: DeviceProfile, predictor: Predictor, tmp_path: Path
) -> None:
    path = tmp_path / "ours.tflite"
    path.write_bytes(small_models.classifier())
    found = benchmark_on_device([path], board, board.target("cpu-x1"), None, lambda: predictor)
    (row,) = found.rows
    assert row.latency is not None
    assert row.latency.source.startswith(SOURCE)
    shown = io.StringIO()
    print_device_benchmark(found, Console(file=shown, width=120))
    assert f"our-board:cpu-x1  predicted from {SOURCE}, not measured" in shown.getvalue()
