"""Functions on files (``compress``, ``benchmark``, ``check_data``, ...): what they refuse, and what they pass on."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from advisor.api import State, benchmark, benchmark_device, check_data, compress, diagnose, doctor
from advisor.cli._main import app
from advisor.core import ExitCode, UsageError, install_extra
from advisor.devices._profiles import runtimes
from advisor.engine._compress import compress as work, question
from advisor.isolation import usable_cores
from advisor.measurement import session
from advisor.measurement._latency.timing import parse_threads
from tests.builders import must_fail
from tests.datasets.folders import make
from tests.measurement import small_models
from tests.tables import with_cases


def test_every_argument_reaches_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(question, "prepare_compression", lambda *a, **b: asked.append((a, b)) or "question")
    monkeypatch.setattr(work, "compress", lambda *given: made.append(given))
    options = {"max_drop_points": 0.5, "mean": (1.0,), "std": (2.0,), "seed": 3, "learn_s": 4.0, "force": True}
    compress(
        "net.tflite", ["int8"], calibration="c", data="d", samples="s.npz", to="t", latency=False,
        accelerator="edgetpu", tell=print, requantize=True, cache_size="5GB", **options,
    )  # fmt: skip
    places = {"calibration": "c", "data": "d", "samples": "s.npz", "to": "t", "requantize": True}
    assert asked == [((Path("net.tflite"), ["int8"]), {**options, **places, "accelerator": "edgetpu"})]
    assert made == [("question", print, False, 5_000_000_000)]


def test_a_file_without_its_normalization_or_that_is_missing_is_not_diagnosed(tmp_path: Path) -> None:
    model = small_models.saved(tmp_path, small_models.classifier(32, classes=2))
    must_fail(UsageError, "normalis", diagnose, model, model)
    with pytest.raises(UsageError, match=r"absent\.tflite"):
        diagnose(model.with_name("absent.tflite"), model, mean=[127.5], std=[127.5])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes with one copy."""
    root = make(tmp_path / "photos", cat=12, dog=12)
    shutil.copy(root / "cat" / "000.jpg", root / "cat" / "copy.jpg")
    return root


@with_cases
def test_a_manifest_that_cannot_be_written_is_refused_before_the_check(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.csv").write_text("")
    must_fail(UsageError, message, check_data, tmp_path / "no images here", fix=tmp_path / name)


def test_a_card_that_there_is_not_is_refused(photos: Path) -> None:
    must_fail(UsageError, "did you mean 'mobilenet_v2_1.0_224'", check_data, photos, card="mobilenet_v2_1.0_225")


def test_thread_counts_are_numbers_or_all() -> None:
    assert parse_threads((1, "2")) == (1, 2)
    assert parse_threads(["all"]) == (usable_cores(),)


@pytest.mark.parametrize("wrong", [0, "many", 1.5, 65])
def test_a_thread_count_below_one_is_refused(wrong: Any) -> None:
    must_fail(UsageError, f"--threads: '{wrong}' is not a whole number from 1 to 64", parse_threads, [wrong])


def test_a_benchmark_passes_every_argument_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(session, "benchmark", lambda *models, **options: seen.append((models, options)))
    options = {
        "effort": "full", "shape": (1, 2), "kernels": "builtin", "runtime": "r", "cpus": (0,), "contended": True,
        "sustained_s": 5.0, "pipeline": False, "image": "a.jpg", "force": True, "tell": print,
    }  # fmt: skip
    benchmark("a.tflite", "b.tflite", threads=["2"], **options)
    assert seen == [(("a.tflite", "b.tflite"), {**options, "threads": ["2"]})]


def test_a_benchmark_on_a_device_passes_every_argument_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr("advisor.measurement._on_device.choice.benchmark_device", lambda *given: seen.append(given))
    benchmark_device(
        "a.tflite", device="board:cpu", accelerator="cpu", adb="R58", benchmark_model="bm", cores="f0", threads=[2],
        effort="full", profiles=["own"], tell=print,
    )  # fmt: skip
    ((models, device, accelerator, settings, *rest),) = seen
    assert (models, device, accelerator) == (("a.tflite",), "board:cpu", "cpu")
    assert (settings.address, settings.benchmark_model, settings.cores) == ("R58", Path("bm"), "f0")
    assert rest == [["own"], [2], "full", print, {"upload": None, "upload_images": None, "cloud_limit": "30min"}]


def test_the_cpu_of_this_machine_is_no_device() -> None:
    with pytest.raises(UsageError, match="this machine's CPU is not a device"):
        benchmark_device("a.tflite", device="host", accelerator="cpu")


@pytest.mark.integration
def test_this_machine_is_ready() -> None:
    states = {check.name: check.state for check in doctor()}
    assert states["python"] is State.OK
    assert states["ai-edge-litert"] is State.OK
    assert states["child process"] is State.OK


def test_an_install_without_training_is_a_warning_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "find_version", lambda _package: "")
    training = next(check for check in doctor(run_model=False) if check.name == "training")
    assert (training.state, training.found) == (State.WARNING, "not installed")
    assert training.hint.endswith(install_extra("train"))


def test_no_weights_warn_and_a_read_only_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    weights = next(check for check in doctor(run_model=False) if check.name == "weights")
    assert (weights.state, weights.found[:5]) == (State.WARNING, "0 of ")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    cache = next(check for check in doctor(run_model=False) if check.name == "cache")
    assert cache.state is State.FAILED
    assert "ADVISOR_CACHE_DIR" in cache.hint


@pytest.mark.integration
def test_a_machine_that_is_not_ready_is_no_fault_of_advisors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    ended = CliRunner().invoke(app, ["doctor"])
    assert "FAILED" in ended.stdout
    assert ended.exit_code == ExitCode.USAGE
