"""One whole run of the benchmark: files good and bad, alone and together."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import advisor
from advisor.core.errors import UsageError
from advisor.measurement.latency.session import Benchmark, benchmark
from advisor.measurement.on_device.gpu import benchmark_on_gpu
from advisor.measurement.operators.profile import profile
from advisor.tflite.postprocess import OPERATOR
from tests.builders import present
from tests.detectors import detector_file
from tests.documents import problems
from tests.measurement import small_models

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "models"


@pytest.fixture(scope="module")
def crash(folder: Path) -> Path:
    path = folder / "crash.tflite"
    path.write_bytes(small_models.crashing())
    return path


@pytest.fixture(scope="module")
def pair(starts_processes: None, float_model: Path, swish_model: Path, crash: Path) -> Benchmark:
    """Two files that run and one that crashes the runtime."""
    models = (float_model, crash, swish_model)
    return benchmark(*models, threads=(1, 2), effort="search", force=True)


def test_files_that_run_are_measured_at_every_thread_count(pair: Benchmark) -> None:
    timed = [file.timing for file in pair.files if file.timing]
    assert [[row.threads for row in timing.results] for timing in timed] == [[1, 2], [1, 2]]
    assert {timing.effort for timing in timed} == {"search"}


def test_memory_and_loading_are_those_of_a_file_in_a_process_of_its_own(pair: Benchmark) -> None:
    for file in (pair.files[0], pair.files[2]):
        assert file.timing is not None
        assert file.timing.peak_memory_bytes
        assert file.timing.load_content_ms
        assert file.arena_bytes > 0


def test_a_file_that_crashes_the_runtime_is_a_failed_row_beside_the_others(pair: Benchmark) -> None:
    assert [file.model for file in pair.failed] == [pair.files[1].model]
    assert "died (SIG" in pair.failed[0].failure
    assert "\n" not in pair.failed[0].failure


def test_ratios_hold_each_file_against_the_first_at_each_thread_count(pair: Benchmark) -> None:
    assert [(row.model, row.threads) for row in pair.ratios] == [(pair.files[2].model, 1), (pair.files[2].model, 2)]
    alone = pair.ratios[0]
    assert alone.low > 2
    assert alone.differs


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
    options = {"contended": True, "sustained_s": 1.0, "pipeline": False}
    made = benchmark(float_model, threads=(1, 2), effort="search", force=True, **options)
    assert problems("benchmark", json.loads(json.dumps(made.to_json()))) == []
    found = made.files[0]
    assert [row.threads for row in found.loaded] == [1, 2]
    assert found.pipeline is None
    assert len(present(found.sustained).windows) == 30
    assert any("during a load on the other processors" in sentence for sentence in found.advice)
    assert any("in the first 0.2 s" in sentence for sentence in found.advice)


@pytest.mark.integration
def test_the_package_and_the_function_share_a_name(float_model: Path) -> None:
    found = advisor.benchmark(float_model, effort="search", force=True, pipeline=False)
    assert found.files[0].timing is not None


@pytest.mark.parametrize("part", range(20))
def test_a_file_cut_off_anywhere_is_refused_before_anything_is_spent(
    float_model: Path, tmp_path: Path, part: int
) -> None:
    whole = float_model.read_bytes()
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(whole[: len(whole) * part // 20])
    with pytest.raises(UsageError, match=r"broken\.tflite") as caught:
        benchmark(broken, tell=lambda text: pytest.fail(f"went on: {text}"))
    assert "\n" not in caught.value.message


@pytest.mark.integration
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (small_models.crashing, "died (SIG"),
        (small_models.unknown_operator, "unresolved custom op: Nobody"),
        (lambda: small_models.classifier(open_shape=True), "unknown dimensions"),
    ],
)
def test_a_file_that_does_not_run_is_the_users_to_mend(tmp_path: Path, make: object, said: str) -> None:
    path = tmp_path / "bad.tflite"
    path.write_bytes(make())
    with pytest.raises(UsageError, match=r"bad\.tflite") as caught:
        benchmark(path, effort="search", force=True)
    assert said in caught.value.message


@pytest.mark.integration
def test_an_open_shape_is_hinted_at_and_taken(tmp_path: Path) -> None:
    path = tmp_path / "open.tflite"
    path.write_bytes(small_models.classifier(open_shape=True))
    with pytest.raises(UsageError) as caught:
        benchmark(path, effort="search", force=True)
    assert "--shape" in caught.value.hint
    assert benchmark(path, effort="search", shape=(1, 64, 64, 3), force=True).files[0].timing


@pytest.mark.integration
def test_threads_can_be_pinned_to_processors(float_model: Path) -> None:
    one = min(os.sched_getaffinity(0))
    found = benchmark(float_model, threads=(1, 2), effort="search", cpus=(one,), pipeline=False, force=True)
    timing = present(found.files[0].timing)
    assert timing.at(2).contended
    with pytest.raises(UsageError, match="processor 9999 cannot be used"):
        benchmark(float_model, cpus=(9999,))


def test_the_same_file_twice_is_refused(float_model: Path) -> None:
    with pytest.raises(UsageError, match="given twice"):
        benchmark(float_model, float_model)


def test_no_model_is_refused() -> None:
    with pytest.raises(UsageError, match="no model given"):
        benchmark()


@pytest.mark.parametrize("effort", ["load", "fast"])
def test_an_unknown_effort_is_refused(float_model: Path, effort: str) -> None:
    with pytest.raises(UsageError, match=f"unknown effort '{effort}'"):
        benchmark(float_model, effort=effort)


@pytest.mark.parametrize("command", [benchmark, profile, benchmark_on_gpu])
def test_a_file_whose_activations_fit_no_memory_is_refused_before_anything_is_spent(
    tmp_path: Path, command: Callable[..., object]
) -> None:
    path = tmp_path / "huge.tflite"
    path.write_bytes(small_models.swish_net(side=100_000, channels=1))
    with pytest.raises(UsageError, match=r"huge\.tflite needs \d+\.\d GB for its constants and activations"):
        command([path] if command is benchmark_on_gpu else path)


@pytest.mark.parametrize("version", [0, 2, 4])
def test_another_version_of_the_format_is_refused(tmp_path: Path, version: int) -> None:
    from ai_edge_litert import schema_py_generated as schema

    from advisor.tflite.rewrite import pack

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(small_models.classifier(), 0))
    model.version = version
    path = tmp_path / "other.tflite"
    path.write_bytes(pack(model))
    with pytest.raises(UsageError, match=rf"other\.tflite is not a usable .* version is {version}, not 3"):
        benchmark(path)


@pytest.mark.integration
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data/models is not here")
def test_files_made_by_others_are_measured() -> None:
    found = benchmark(*sorted(SHARED.glob("*.tflite")), effort="search", force=True)
    assert not found.failed
    assert all(file.pipeline and file.pipeline.normalization == "from the file" for file in found.files)


@pytest.mark.integration
def test_the_latency_of_a_detector_includes_its_post_processing_and_says_so(tmp_path: Path, float_model: Path) -> None:
    detector = detector_file(tmp_path / "cells.tflite")
    found = benchmark(detector, float_model, effort="search", pipeline=False, force=True)
    assert not found.failed
    (note,) = (note for note in found.notes if OPERATOR in note)
    assert note.startswith(f"the latency of cells.tflite includes {OPERATOR}")
