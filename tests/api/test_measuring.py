"""``benchmark``, ``benchmark_device`` and ``profile``: what they refuse, and what they pass on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from advisor.api import benchmark, benchmark_device, profile
from advisor.api.measuring import thread_counts
from advisor.core.errors import UsageError
from advisor.engine.targets import benchmarking
from advisor.measurement.latency import session


def test_thread_counts_are_numbers_or_all() -> None:
    assert thread_counts((1, "2")) == (1, 2)
    assert thread_counts(["all"]) == (len(os.sched_getaffinity(0)),)


@pytest.mark.parametrize("wrong", ["0", 0, "-1", "many", 1.5])
def test_a_thread_count_below_one_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"--threads: '{wrong}' is not a number of threads"):
        thread_counts([wrong])


def test_a_benchmark_passes_every_argument_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(session, "benchmark", lambda *models, **options: seen.append((models, options)))
    options = {
        "effort": "full", "shape": (1, 2), "kernels": "builtin", "runtime": "r", "cpus": (0,), "contended": True,
        "sustained_s": 5.0, "pipeline": False, "image": "a.jpg", "force": True, "tell": print,
    }  # fmt: skip
    benchmark("a.tflite", "b.tflite", threads=["2"], **options)
    assert seen == [(("a.tflite", "b.tflite"), {**options, "threads": (2,)})]


def test_a_benchmark_on_a_device_passes_every_argument_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(benchmarking, "benchmark_device", lambda *given: seen.append(given))
    benchmark_device(
        "a.tflite", device="board:cpu", accelerator="cpu", adb="R58", benchmark_model="bm", cores="f0", threads=[2],
        effort="full", profiles=["own"], tell=print,
    )  # fmt: skip
    ((models, device, accelerator, settings, *rest),) = seen
    assert (models, device, accelerator) == (("a.tflite",), "board:cpu", "cpu")
    assert (settings.adb, settings.benchmark_model, settings.cores) == ("R58", Path("bm"), "f0")
    assert rest == [["own"], (2,), "full", print]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "this machine's CPU is not a device"),
        ({"device": "host", "accelerator": "cpu"}, "this machine's CPU is not a device"),
        ({"accelerator": "gpuu"}, "unknown accelerator 'gpuu' (did you mean 'gpu'?)"),
        ({"accelerator": "npu"}, "advisor cannot measure the npu of this machine"),
        ({"ssh": "pi@board"}, "--ssh and --adb need the name of a device"),
        ({"device": "raspberry-pi-4", "cores": "f0"}, "--benchmark-model and --cores need --adb"),
        ({"device": "raspberry-pi-5x"}, "did you mean 'raspberry-pi-5'"),
        ({"device": "raspberry-pi-4", "effort": "fast"}, "effort 'fast'"),
    ],
)
def test_a_device_that_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        benchmark_device("a.tflite", **options)
    assert message in caught.value.message


@pytest.mark.parametrize("function", [benchmark, profile], ids=["benchmark", "profile"])
def test_a_file_that_is_missing_is_refused(function: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no model file"):
        function(tmp_path / "absent.tflite")


@pytest.mark.integration
def test_a_file_that_the_runtime_refuses_is_an_error_of_usage(tmp_path: Path) -> None:
    from tests.measurement import small_models

    (tmp_path / "custom.tflite").write_bytes(small_models.unknown_operator())
    with pytest.raises(UsageError, match="unresolved custom op"):
        profile(tmp_path / "custom.tflite")
