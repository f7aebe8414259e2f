"""Predictions as the search and a user see them, and other runtimes of this machine as devices."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import given, strategies as st

from advisor.core import Provenance, UsageError, install_extra
from advisor.devices import (
    CALIBRATED,
    HOST,
    Cluster,
    DeviceProfile,
    DeviceTarget,
    Measurement,
    ModelFeatures,
    Prediction,
    Predictor,
    Profiles,
    describe_doubts,
    list_devices,
    local_runtimes,
    require_runtime,
    runtime_of,
    show,
    title_of,
)
from advisor.devices._latency.features import FeatureTable
from advisor.devices._prediction import fit_predictor
from advisor.devices._profiles import runtimes
from tests.builders import interval, must_fail
from tests.tables import with_cases

Nets = Sequence[ModelFeatures]
STRANGER = ModelFeatures("stranger", "stranger", 4e8, 4e6, 224, 90)
ONNX = "host:onnxruntime"


@pytest.fixture(scope="session")
def nets(features: FeatureTable) -> Nets:
    return [features.models[name] for name in ("mobilenet_v2_1.0_224", "mobilenet_v2_0.75_192", "resnet_50_224")]


class Predict(Protocol):
    """Predicts models on a shipped device."""

    def __call__(self, selector: str, form: str, models: Nets) -> tuple[Prediction, ...]: ...


@pytest.fixture(scope="session")
def predict(predictor: Predictor, profiles: Profiles) -> Predict:
    return lambda selector, form, models: predictor.predict(*profiles.select(selector), form, models)


def test_published_latencies_stay_and_other_sizes_lie_between(predict: Predict, profiles: Profiles, nets: Nets) -> None:
    net = predict("galaxy-s24", "float32", nets)[0].latency
    row = next(m for m in profiles["galaxy-s24"].measurements if m.model == nets[0].name and m.target == "tflite-npu")
    assert (net.provenance, net.value) == (Provenance.PUBLISHED, pytest.approx(row.latency_ms))
    assert row.source_repo in net.source
    full, smaller, _ = predict("raspberry-pi-4", "float32", nets)
    assert smaller.latency.provenance is Provenance.PREDICTED
    assert 0.3 * full.latency.value < smaller.latency.value < full.latency.value
    low, value, high = interval(smaller.latency)
    assert low < value < high


def test_int8_is_faster_than_float_where_the_npu_takes_it(predict: Predict, nets: Nets) -> None:
    for net in (nets[2], STRANGER):
        plain, small = (predict("galaxy-s25", form, [net])[0].latency.value for form in ("float32", "int8"))
        assert small < plain


def test_a_recipe_without_figures_runs_as_the_form_most_alike_or_the_nearest(predict: Predict, nets: Nets) -> None:
    plain, alias = (predict("raspberry-pi-4", form, nets)[1] for form in ("float32", "weight_int8"))
    assert alias.latency.value == pytest.approx(plain.latency.value)
    assert alias.deviation > plain.deviation
    assert predict("raspberry-pi-4", "weight_int8", nets)[0].latency.provenance is Provenance.PREDICTED
    must_fail(UsageError, "did you mean 'float16'", predict, "raspberry-pi-4", "flaot16", [STRANGER])


@given(st.lists(st.floats(0.01, 1e5), min_size=2, max_size=8))
def test_the_chance_to_meet_a_budget_grows_with_it(predict: Predict, nets: Nets, budgets: list[float]) -> None:
    for prediction in predict("raspberry-pi-4", "float32", [nets[0], STRANGER]):
        chances = [prediction.probability(budget) for budget in sorted(budgets)]
        assert [0.0, *chances, 1.0] == sorted([0.0, *chances, 1.0])


def test_the_interval_and_the_chance_tell_the_same(predict: Predict) -> None:
    prediction = predict("kirin-990", "float32", [STRANGER])[0]
    low, _, high = interval(prediction.latency)
    assert [prediction.probability(low), prediction.probability(high)] == pytest.approx([0.1, 0.9], abs=0.02)


def team_device(*rows: Measurement) -> DeviceProfile:
    target = DeviceTarget("cpu-x4", "ai-edge-litert", "cpu", 4, "2.3.0", ("float32", "int8"))
    cores = (Cluster("Cortex-A76", 4, 2200),)
    return DeviceProfile(
        "team-board", "Our board", "board", "Maker M9", (target,), "cpu-x4", "armv8.2-a", cores, measurements=rows
    )


def as_calibrated(profiles: Profiles, factor: float = 1.0) -> list[Measurement]:
    """Return the float latencies of a Raspberry Pi 5, times a factor, as measurements of the team's board."""
    return [
        Measurement("cpu-x4", row.model, row.precision, factor * row.latency_ms, source_repo=CALIBRATED)
        for row in profiles["raspberry-pi-5"].measurements
        if row.usable and row.target == "ncnn-cpu-x4" and row.precision == "float32"
    ]


def test_a_new_device_is_predicted_from_its_cores(predictor: Predictor, profiles: Profiles, nets: Nets) -> None:
    rows = as_calibrated(profiles, 0.8)
    before, after = (
        predictor.predict(device, device.target(), "float32", [nets[2]])[0]
        for device in (team_device(), team_device(*[row for row in rows if row.model != nets[2].name][:5]))
    )
    truth = next(row.latency_ms for row in rows if row.model == nets[2].name)
    assert (before.latency.n, after.latency.n) == (0, 5)
    assert after.deviation < before.deviation
    assert abs(after.latency.value / truth - 1) < 0.15


def test_a_target_like_no_other_names_two_networks(predictor: Predictor, profiles: Profiles, nets: Nets) -> None:
    phone = profiles["galaxy-s24"]
    target = phone.target("tflite-npu")
    old = replace(phone, name="old-phone", soc="Old", npu="Hexagon v66", measurements=())
    rows = [row for row in phone.measurements if row.target == target.name and row.usable and row.model != nets[0].name]
    measured = replace(old, measurements=tuple(row for row in rows if row.precision == "int8")[:2])
    before, after = (predictor.predict(device, target, "int8", nets[:1])[0] for device in (old, measured))
    assert before.unlike.startswith("no comparable device: measure two networks on it, such as ")
    board = profiles["esp32-s3"]
    (small,) = predictor.predict(board, board.targets[0], "int8", nets[:1])
    assert "more than 1,000 apart: measure two networks on it, such as mobilenet_v2_0.75_192 and " in small.unlike
    named = before.unlike.partition("such as ")[2].partition(" (")[0].split(" and ")
    assert len(set(named) & {row.model for each in profiles.values() for row in each.measurements}) == 2
    assert before.unlike in before.latency.source
    assert not after.unlike


def test_own_measurements_are_given_as_measured_and_change_predictions(predictor: Predictor, nets: Nets) -> None:
    device = team_device(Measurement("cpu-x4", nets[0].name, "float32", 12.0, source_repo=CALIBRATED))
    latency = predictor.predict(device, device.target(), "float32", nets[:1])[0].latency
    assert (latency.value, latency.provenance) == (pytest.approx(12.0), Provenance.MEASURED)
    slow, fast = (team_device(replace(device.measurements[0], latency_ms=ms)) for ms in (80.0, 8.0))
    first, second = (predictor.predict(d, d.target(), "float32", [nets[2]])[0].latency.value for d in (slow, fast))
    assert first > 4 * second


@pytest.mark.parametrize(("version", "other"), [("2.3.1", False), ("2.4.0", True), ("2.9.0", True)])
def test_another_release_has_a_wider_interval(predictor: Predictor, nets: Nets, version: str, other: bool) -> None:
    row = Measurement("cpu-x4", nets[0].name, "float32", 12.0, source_repo="someone/else", runtime_version="2.3.0")
    same, changed = team_device(row), team_device(replace(row, runtime_version=version))
    own, found = (predictor.predict(d, d.target(), "float32", nets[:1])[0] for d in (same, changed))
    widened = (found.deviation > own.deviation, "another release" in found.latency.source)
    assert (found.latency.provenance, widened) == (Provenance.PUBLISHED, (other, other))


def test_a_measurement_that_contradicts_the_others_is_named(predictor: Predictor, profiles: Profiles) -> None:
    rows = as_calibrated(profiles)[:8]
    device = team_device(replace(rows[0], latency_ms=4 * rows[0].latency_ms), *rows[1:])
    found = predictor.contradicting(device, device.target(), "float32")
    assert found == {rows[0].model: pytest.approx(rows[0].latency_ms, rel=0.3)}
    other = predictor.predict(device, device.target(), "float32", [STRANGER])[0].latency
    assert f"contradicting the others, so hardly used: {rows[0].model}" in other.source
    right = team_device(*rows)
    assert predictor.contradicting(right, right.target(), "float32") == {}
    undisturbed = predictor.predict(right, right.target(), "float32", [STRANGER])[0].latency
    assert other.value == pytest.approx(undisturbed.value, rel=0.1)


@with_cases
def test_a_busy_device_another_build_and_an_unknown_release_are_doubted(
    profiles: Profiles, tmp_path: Path, factors: Sequence[float], release: str, said: str
) -> None:
    rows = [replace(m, latency_ms=f * m.latency_ms) for f, m in zip(factors, as_calibrated(profiles), strict=False)]
    device = replace(team_device(*rows), origin=tmp_path / "team-board.yaml")
    doubts = describe_doubts(device, replace(device.target(), version=release))
    assert (len(doubts), [said in doubt for doubt in doubts]) == (bool(said), [True] * bool(said))


def test_without_measurements_or_models_nothing_is_predicted(predict: Predict) -> None:
    must_fail(UsageError, "no device profile has a measurement", fit_predictor, Profiles([team_device()]))
    assert predict("pixel-4", "int8", []) == ()


def test_each_runtime_is_listed_with_its_name_and_the_processor_and_thread_counts_of_this_machine() -> None:
    names = [profile.name for profile in list_devices() if profile.kind == "computer"]
    assert names[0] == HOST
    assert set(local_runtimes()) < set(names)
    here, there = show(HOST), show(ONNX)
    assert (there.soc, there.memory_bytes, there.default_target) == (here.soc, here.memory_bytes, here.default_target)
    assert [target.name for target in there.targets] == [target.name for target in here.targets]
    assert {target.runtime for target in there.targets} == {"onnxruntime"}
    titles = {"host": "LiteRT", "host:litert": "LiteRT", ONNX: "ONNX Runtime", f"{ONNX}:cpu-x1": "ONNX Runtime cpu-x1"}
    assert {selector: title_of(selector) for selector in (*titles, "pixel-3")} == {**titles, "pixel-3": ""}


@with_cases
def test_a_name_selects_a_runtime_or_target(profiles: Profiles, selector: str, device: str, target: str) -> None:
    profile, selected = profiles.select(selector)
    assert (profile.name, selected) == (device, profile.target(target))


@with_cases
def test_the_nearest_name_is_in_the_error(profiles: Profiles, wrong: str, meant: str) -> None:
    must_fail(UsageError, f"did you mean '{meant}'", profiles.select, wrong)


def test_a_missing_package_is_refused_with_its_install_and_a_device_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "find_version", lambda package: "" if package == "tf2onnx" else "1.0")
    refused = must_fail(UsageError, "host:onnxruntime needs tf2onnx", require_runtime, show(ONNX))
    assert install_extra("onnx") in refused.hint
    assert require_runtime(show("raspberry-pi-4")) is None
    assert runtime_of("raspberry-pi-4:tflite-cpu-x4") is None
    assert runtime_of(f"{ONNX}:cpu-x1") is local_runtimes()[ONNX]


def test_forms_with_an_onnx_export_are_taken_and_others_are_not() -> None:
    target = show(ONNX).target()
    for form in ("dynamic_int8", "weight_int4", "int16x8"):
        assert target.incompatibility(form).endswith(f"not {form}")
    for form in ("float32", "float16", "weight_int8", "int8", "pruned_50"):
        assert target.incompatibility(form) == ""


def test_a_browser_that_is_missing_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = must_fail(UsageError, "chromium cannot run here: no browser", require_runtime, show("chromium"))
    assert "apt-get install chromium" in refused.hint
