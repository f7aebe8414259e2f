"""One whole run of the benchmark, with files good and bad, and other runtimes in environments of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import advisor
from advisor.core import UsageError
from advisor.devices._runtime_packages import Runtime, parse_runtime, refuse_newer_python
from advisor.measurement import measure, session
from advisor.measurement._latency.interpreter_options import InterpreterOptions
from advisor.measurement._latency.pipeline import _read_normalization
from advisor.measurement._latency.session import Benchmark, benchmark
from advisor.measurement._on_device.gpu import benchmark_on_gpu
from advisor.measurement._operators.profile import profile
from advisor.tflite import OPERATOR
from tests.builders import must_fail, present
from tests.detectors import detector_file
from tests.documents import problems
from tests.measurement import small_models
from tests.requirements import skip_or_fail
from tests.tables import with_cases

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "models"


def briefly(*models: Path, function: Callable[..., Benchmark] = benchmark, **options: Any) -> Benchmark:
    """Measure with an effort that a user cannot ask for: a run of a file shows what these tests look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "EFFORTS", ("load", "survey"))
        return function(*models, **{"effort": "load", "force": True, **options})


@pytest.fixture(scope="module")
def pair(starts_processes: None, model_folder: Path, float_model: Path, swish_model: Path) -> Benchmark:
    """Two files that run and one that crashes the runtime, on an image that is decoded at once."""
    image = model_folder / "red.png"
    Image.new("RGB", (8, 8), "red").save(image)
    crash = small_models.saved(model_folder, small_models.crashing(), "crash.tflite")
    return briefly(float_model, crash, swish_model, threads=(1, 2), effort="survey", image=image)


def test_files_that_run_are_measured_at_every_thread_count_with_ratios_and_a_crash_is_a_row(pair: Benchmark) -> None:
    timed = [file.timing for file in pair.files if file.timing]
    assert [[row.threads for row in timing.results] for timing in timed] == [[1, 2], [1, 2]]
    assert {timing.effort for timing in timed} == {"survey"}
    assert [(row.model, row.threads) for row in pair.ratios] == [(pair.files[2].model, 1), (pair.files[2].model, 2)]
    alone = pair.ratios[0]
    assert alone.low > 2
    assert alone.differs
    assert [file.model for file in pair.failed] == [pair.files[1].model]
    assert "died (SIG" in pair.failed[0].failure
    assert "\n" not in pair.failed[0].failure
    for file in (pair.files[0], pair.files[2]):
        assert file.timing.peak_memory_bytes
        assert file.timing.load_content_ms
        assert file.arena_bytes > 0


def test_the_way_from_a_image_to_an_answer_adds_up(pair: Benchmark) -> None:
    found = present(pair.files[2].pipeline)
    steps = (found.decode_ms, found.normalise_ms, found.copy_in_ms, found.invoke_ms, found.copy_out_ms, found.answer_ms)
    assert all(step > 0 for step in steps)
    assert found.pipeline_ms == pytest.approx(sum(steps), rel=0.5)
    assert "us" in found.sentence


def test_json_is_whole_and_has_no_infinities(pair: Benchmark) -> None:
    data = json.loads(json.dumps(pair.to_json(), allow_nan=False))
    assert problems("benchmark", data) == []
    assert data["schema_version"] == 1
    assert [bool(file["failure"]) for file in data["files"]] == [False, True, False]
    assert data["files"][0]["timing"]["results"][0]["rank_ms"] > 0
    assert data["ratios"][0]["differs"] is True


@pytest.mark.integration
def test_load_on_the_others_and_running_on_are_measured_where_asked(float_model: Path) -> None:
    made = briefly(float_model, threads=(1, 2), contended=True, sustained_s=0.5, pipeline=False)
    assert problems("benchmark", json.loads(json.dumps(made.to_json()))) == []
    found = made.files[0]
    assert [row.threads for row in found.loaded] == [1, 2]
    assert found.pipeline is None
    assert len(present(found.sustained).windows) == 30
    assert any("during a load on the other processors" in sentence for sentence in found.advice)
    assert any("in the first 0.1 s" in sentence for sentence in found.advice)


@pytest.mark.integration
@with_cases
def test_a_file_that_does_not_run_is_the_users_to_mend(tmp_path: Path, network: str, said: str) -> None:
    path = small_models.saved(tmp_path, getattr(small_models, network)(), "bad.tflite")
    with pytest.raises(UsageError, match=r"bad\.tflite") as caught:
        briefly(path)
    assert said in caught.value.message


@pytest.mark.integration
def test_an_open_shape_is_hinted_at_and_taken(tmp_path: Path) -> None:
    path = small_models.saved(tmp_path, small_models.classifier(open_shape=True), "open.tflite")
    caught = must_fail(UsageError, r"open\.tflite: .* unknown dimensions", briefly, path)
    assert "--shape" in caught.hint
    assert briefly(path, shape=(1, 64, 64, 3)).files[0].timing


@pytest.mark.integration
def test_threads_can_be_pinned_to_processors_and_the_function_has_the_name_of_a_module(float_model: Path) -> None:
    one = min(os.sched_getaffinity(0))
    (found,) = briefly(float_model, function=advisor.benchmark, threads=(2,), cpus=(one,)).files
    assert present(found.timing).at(2).contended
    assert present(found.pipeline).image == "rocket.jpg"


@with_cases
def test_wrong_files_or_options_are_named(float_model: Path, times: int, options: dict[str, Any], reason: str) -> None:
    must_fail(UsageError, reason, benchmark, *[float_model] * times, **options)


@pytest.mark.parametrize("command", [benchmark, profile, benchmark_on_gpu])
def test_a_file_too_large_for_all_memory_is_refused_first(tmp_path: Path, command: Callable[..., object]) -> None:
    path = small_models.saved(tmp_path, small_models.swish_net(side=100_000, channels=1), "huge.tflite")
    with pytest.raises(UsageError, match=r"huge\.tflite needs \d+\.\d GB for its constants and activations"):
        command([path] if command is benchmark_on_gpu else path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data/models is not here")
def test_files_made_by_others_say_their_normalization() -> None:
    assert {_read_normalization(file)[2] for file in SHARED.glob("*.tflite")} == {"from the file"}


@pytest.mark.integration
def test_the_latency_of_a_detector_includes_its_post_processing_and_says_so(tmp_path: Path) -> None:
    found = briefly(detector_file(tmp_path / "cells.tflite"), pipeline=False)
    assert not found.failed
    (note,) = (note for note in found.notes if OPERATOR in note)
    assert note.startswith(f"the latency of cells.tflite includes {OPERATOR}")


@pytest.mark.parametrize("text", ["tflite-runtime==2.14.0", " TFLite_Runtime == 2.14.0 "])
def test_a_package_with_a_version_is_read(text: str) -> None:
    assert parse_runtime(text) == Runtime("tflite-runtime", "2.14.0")


@with_cases
def test_a_package_that_is_none_or_has_no_exact_version_is_refused(text: str, message: str) -> None:
    must_fail(UsageError, message, parse_runtime, text)


def test_the_installed_runtime_needs_no_environment() -> None:
    assert Runtime("ai-edge-litert", metadata.version("ai-edge-litert")).find_python() is None


def test_a_python_newer_than_the_last_wheel_is_told() -> None:
    with pytest.raises(UsageError, match=r"tflite-runtime==2\.14\.0 has no wheel for Python 3\.12; its last wheels"):
        refuse_newer_python(Runtime("tflite-runtime", "2.14.0"), (3, 12))
    refuse_newer_python(Runtime("tflite-runtime", "2.14.0"), (3, 11))
    refuse_newer_python(Runtime("ai-edge-litert", "2.2.0"), (3, 13))


@pytest.mark.integration
def test_what_pip_cannot_find_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UsageError, match=r"ai-edge-litert==0\.0\.1 cannot be installed: .*No matching") as caught:
        Runtime("ai-edge-litert", "0.0.1").find_python()
    assert "\n" not in caught.value.message
    assert [path for path in (tmp_path / "runtimes").iterdir() if path.is_dir()] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tflite-runtime has no wheel for this Python")
def test_an_older_runtime_is_installed_once(float_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    runtime = Runtime("tflite-runtime", "2.14.0")
    try:
        python = runtime.find_python()
    except UsageError as error:
        skip_or_fail(f"the package index is out of reach: {error.message}")
    assert python is not None
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert runtime.find_python() == python
    code = "import importlib.util as u; print(u.find_spec('ai_edge_litert'), u.find_spec('advisor'))"
    seen = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert seen.split() == ["None", "None"]
    timing = measure(float_model, [1], "search", retry=False, setup=InterpreterOptions(python=python))
    assert timing.runtime == "tflite-runtime==2.14.0"
