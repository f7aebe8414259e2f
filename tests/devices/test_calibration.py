"""Choosing models, adding measurements, and what they do; writing the profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.devices.calibration import with_measurements
from advisor.devices.calibration_report import calibration_report
from advisor.devices.latency.features import FeatureTable
from advisor.devices.prediction.predictor import CALIBRATED, Predictor
from advisor.devices.profiles import (
    Cluster,
    DeviceLimits,
    DeviceProfile,
    DeviceTarget,
    Profiles,
    load_profiles,
    read_profile,
)
from advisor.devices.profiles.measurements import Measurement
from advisor.devices.profiles.team import write_profile

TARGET = DeviceTarget("cpu-x4", "ai-edge-litert", "cpu", 4, "2.3.0", ("float32",))
BOARD = DeviceProfile(
    name="our-board",
    title="Our board",
    kind="board",
    soc="Maker M9",
    targets=(TARGET,),
    default_target="cpu-x4",
    isa="armv8.2-a",
    cores=(Cluster("Cortex-A76", 4, 2200), Cluster("Cortex-A55", 4)),
    memory_bytes=4_000_000_000,
    limits=DeviceLimits(package_bytes=20_000_000),
    sources=("our own bench",),
)


def test_the_models_to_measure_are_different_and_available(predictor: Predictor, features: FeatureTable) -> None:
    available = [model for name, model in features.models.items() if name.endswith("_224")]
    costs = {model.name: 0.0 for model in available}
    chosen = predictor.most_informative(BOARD, TARGET, "float32", costs, 5)
    assert len(set(chosen)) == 5
    assert set(chosen) <= {model.name for model in available}


def test_large_downloads_are_chosen_last(predictor: Predictor) -> None:
    costs = {"vgg16_224": 500.0, "resnet_50_224": 0.0, "mobilenet_v2_1.0_224": 0.0, "resnet_18_224": 0.0}
    chosen = predictor.most_informative(BOARD, TARGET, "float32", costs, 3)
    assert "vgg16_224" not in chosen


def test_models_that_no_table_knows_are_refused(predictor: Predictor) -> None:
    with pytest.raises(UsageError, match="none of these models"):
        predictor.most_informative(BOARD, TARGET, "float32", {"stranger": 0.0}, 5)


def test_measurements_of_a_like_board_lower_the_error(
    predictor: Predictor, profiles: Profiles, features: FeatureTable
) -> None:
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
    assert report.contradicting == {}
    wrong = with_measurements(after, TARGET, {(chosen[0], "float32"): 5 * truth[chosen[0]]})
    named = calibration_report(predictor, BOARD, wrong, TARGET, available, "float32").contradicting
    assert named == {chosen[0]: pytest.approx(truth[chosen[0]], rel=0.5)}


def test_new_measurements_replace_old_ones_of_the_same_models(features: FeatureTable) -> None:
    old = Measurement("cpu-x4", "vgg16_224", "float32", 900.0, source_repo="elsewhere")
    kept = Measurement("cpu-x4", "alexnet_227", "float32", 90.0, source_repo="elsewhere")
    after = with_measurements(replace(BOARD, measurements=(old, kept)), TARGET, {("vgg16_224", "float32"): 700.0})
    assert {(row.model, row.latency_ms, row.source_repo) for row in after.measurements} == {
        ("alexnet_227", 90.0, "elsewhere"), ("vgg16_224", 700.0, CALIBRATED)
    }  # fmt: skip


def test_a_written_profile_reads_back(tmp_path: Path) -> None:
    calibrated = with_measurements(BOARD, TARGET, {("vgg16_224", "float32"): 300.0, ("resnet_18_224", "int8"): 31.25})
    path = write_profile(calibrated, tmp_path)
    assert read_profile(path) == calibrated
    assert sorted(p.name for p in tmp_path.iterdir()) == ["our-board.csv", "our-board.yaml"]
    assert load_profiles([tmp_path])["our-board"].measurements == calibrated.measurements


def test_every_shipped_profile_reads_back(tmp_path: Path, profiles: Profiles) -> None:
    for name in ("galaxy-s24", "stm32n6570-dk", "raspberry-pi-5", "hailo-8"):
        assert read_profile(write_profile(profiles[name], tmp_path)) == profiles[name]


@pytest.mark.parametrize("name", ["../escape", "a b", "host"])
def test_a_name_that_the_schema_refuses_is_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        write_profile(replace(BOARD, name=name), tmp_path / "folder")
    assert not list(tmp_path.glob("*.yaml"))
    assert not list(tmp_path.glob("folder/*.yaml"))


def test_a_profile_in_place_survives_one_that_is_refused(tmp_path: Path) -> None:
    path = write_profile(BOARD, tmp_path)
    before = path.read_bytes()
    with pytest.raises(UsageError):
        write_profile(replace(BOARD, kind="toaster"), tmp_path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["our-board.csv", "our-board.yaml"]
