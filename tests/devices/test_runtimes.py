"""Other runtimes of this machine as devices: found by name, described in code, refused where a package is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.devices import list_devices, show
from advisor.devices.profiles import HOST, load_profiles, runtimes
from advisor.devices.profiles.runtimes import local_runtimes, require_runtime, runtime_of, title_of

ONNX = "host:onnxruntime"


def test_each_runtime_is_listed_with_this_machine() -> None:
    names = [profile.name for profile in list_devices() if profile.kind == "computer"]
    assert names[0] == HOST
    assert set(local_runtimes()) < set(names)


def test_a_runtime_has_the_processor_and_the_thread_counts_of_this_machine() -> None:
    here, there = show(HOST), show(ONNX)
    assert (there.soc, there.memory_bytes, there.default_target) == (here.soc, here.memory_bytes, here.default_target)
    assert [target.name for target in there.targets] == [target.name for target in here.targets]
    assert {target.runtime for target in there.targets} == {"onnxruntime"}


@pytest.mark.parametrize(
    ("selector", "device", "target"),
    [
        (ONNX, ONNX, ""),
        (f"{ONNX}:cpu-x1", ONNX, "cpu-x1"),
        ("host:litert", HOST, ""),
        ("host:cpu-x1", HOST, "cpu-x1"),
        ("raspberry-pi-4", "raspberry-pi-4", ""),
    ],
)
def test_a_name_selects_a_runtime_or_one_of_its_targets(selector: str, device: str, target: str) -> None:
    profile, found = load_profiles().select(selector)
    assert profile.name == device
    assert found == profile.target(target)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("host:onxruntime", ONNX), ("host:lite", "host:litert"), (f"{ONNX}:cpu-1", "cpu-x1"), ("hst", HOST)],
)
def test_the_nearest_name_is_in_the_error(wrong: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{meant}'"):
        load_profiles().select(wrong)


def test_a_missing_package_is_refused_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "installed_version", lambda package: "" if package == "tf2onnx" else "1.0")
    with pytest.raises(UsageError, match="host:onnxruntime needs tf2onnx") as refused:
        require_runtime(show(ONNX))
    assert "pip install 'ondevice-advisor[onnx]'" in refused.value.hint


def test_another_device_needs_no_runtime() -> None:
    assert require_runtime(show("raspberry-pi-4")) is None
    assert runtime_of("raspberry-pi-4:tflite-cpu-x4") is None
    assert runtime_of(f"{ONNX}:cpu-x1") is local_runtimes()[ONNX]


@pytest.mark.parametrize("form", ["dynamic_int8", "weight_int4", "int16x8"])
def test_forms_without_an_onnx_export_are_not_taken(form: str) -> None:
    assert show(ONNX).target().incompatibility(form).endswith(f"not {form}")


@pytest.mark.parametrize("form", ["float32", "float16", "weight_int8", "int8", "pruned_50"])
def test_forms_with_an_onnx_export_are_taken(form: str) -> None:
    assert show(ONNX).target().incompatibility(form) == ""


CHROMIUM = "chromium"


@pytest.mark.parametrize(
    ("selector", "runtime", "threads"),
    [
        (CHROMIUM, "litert-web", 1),
        (f"{CHROMIUM}:litert-wasm", "litert-web", 1),
        (f"{CHROMIUM}:onnxruntime-wasm", "onnxruntime-web", 1),
    ],
)
def test_a_browser_runs_litert_by_default(selector: str, runtime: str, threads: int) -> None:
    _, target = load_profiles().select(selector)
    assert (target.runtime, target.threads, target.accelerator) == (runtime, threads, "cpu")


def test_a_browser_that_is_missing_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="chromium cannot run here: no browser is installed") as refused:
        require_runtime(show(CHROMIUM))
    assert "apt-get install chromium" in refused.value.hint


@pytest.mark.parametrize(
    ("selector", "title"),
    [
        ("host", "LiteRT"),
        ("host:litert", "LiteRT"),
        (ONNX, "ONNX Runtime"),
        (f"{ONNX}:cpu-x1", "ONNX Runtime cpu-x1"),
        ("raspberry-pi-4", ""),
    ],
)
def test_a_runtime_has_a_name_for_people(selector: str, title: str) -> None:
    assert title_of(selector) == title
