"""Files in other runtimes of this machine: measured once for a file, a runtime, its version and this machine."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Provenance, Status
from advisor.devices import find_version, local_runtimes
from advisor.devices._profiles import runtimes
from advisor.engine import Materials, Scope, Stage, StageName
from advisor.engine._pipeline.materials import Artefact, LocalTarget
from advisor.engine._pipeline.stage import StageAborted
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._pipeline.stages import other_runtimes
from advisor.engine._pipeline.stages.other_runtimes import check_in_interpreter, measure_in_runtime
from advisor.integrations.browser import ONNXRUNTIME
from advisor.isolation import ChildPool
from advisor.store import cache_root, sha256_file
from tests.builders import must_fail, write_file
from tests.devices.requirements import require_micro, require_onnx
from tests.engine.pipeline.walking import materials, walk
from tests.makers.browsers import chromium, require_runtime
from tests.measurement import small_models

SCOPE = Scope("card", "head", "float32")
HERE = ("host:onnxruntime", "cpu-x1")
pytestmark = pytest.mark.integration


def target(device: str, name: str) -> LocalTarget:
    found = next(each for each in local_runtimes()[device].profile().targets if each.name == name)
    return LocalTarget(device, found)


def file(folder: Path, content: bytes) -> Artefact:
    path = write_file(folder / "small.tflite", content)
    return Artefact(path, sha256_file(path), len(content))


def kinds(stage: Stage[Any], given: Materials, remeasure: bool = False) -> list[tuple[StageName, EventKind]]:
    """What happens to the stages, without their starts."""
    events: list[StageEvent] = []
    walk(stage, given, listen=events.append, remeasure=remeasure)
    return [(each.stage.name, each.kind) for each in events if each.kind is not EventKind.STARTED]


@pytest.fixture
def given(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Materials:
    """A cache that these tests share, because an export takes seconds; others keep longer measurements in theirs."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(shared_folder / "stages-of-runtimes"))
    return materials(cache_root() / "artifacts", effort="load")


@pytest.fixture(scope="module")
def pool() -> Iterator[ChildPool]:
    """One pool for all tests: a child imports the exporter of ONNX for seconds."""
    with ChildPool() as pool:
        yield pool


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A measurement that takes no time; the list has the efforts of those that were made."""
    made: list[str] = []

    def measure(_device: str, _target: object, _model: Path, effort: str) -> Mapping[str, object]:
        made.append(effort)
        return {"contended": len(made) == 1 and effort == "disturbed"}

    monkeypatch.setattr(other_runtimes, "measure", measure)
    monkeypatch.setattr(other_runtimes, "needs_export", lambda _runtime: False)
    return made


def test_a_file_is_converted_and_timed_with_an_interval(given: Materials, pool: ChildPool, tmp_path: Path) -> None:
    require_onnx()
    stage = measure_in_runtime(SCOPE, file(tmp_path, small_models.classifier()), target(*HERE))
    found = walk(stage, given, pool)
    assert (found.latency.provenance, found.latency.low is not None) == (Provenance.MEASURED, True)
    runtime, day = f"onnxruntime=={find_version('onnxruntime')}", found.timing.measured_at[:10]
    assert found.latency.source.startswith(f"{runtime} on this machine, measured on {day}, ")
    assert found.memory is not None
    assert found.remote.onnx_export["same_answers"] == found.remote.onnx_export["inputs"] == 32
    assert (found.timing.threads, found.timing.effort) == (1, "load")
    assert found.contended or walk(stage, given) == found, "a disturbed measurement is not kept"


def test_a_file_without_an_onnx_export_fails_with_the_reason(given: Materials, pool: ChildPool, tmp_path: Path) -> None:
    require_onnx()
    stage = measure_in_runtime(SCOPE, file(tmp_path, small_models.unknown_operator()), target(*HERE))
    end = must_fail(StageAborted, "no ONNX export", walk, stage, given, pool)
    assert (end.status, end.stage) == (Status.FAILED, StageName.ONNX)


def test_a_runtime_that_is_removed_fails_with_its_way_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "find_version", lambda _package: "")
    stage = measure_in_runtime(SCOPE, file(tmp_path, b"one"), target(*HERE))
    with pytest.raises(StageAborted, match="ONNX Runtime needs onnx, which is not installed") as end:
        walk(stage, materials(tmp_path / "cache"))
    assert end.value.status is Status.FAILED


def test_measurements_repeat_if_asked_or_due(quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = file(tmp_path, b"one"), materials(tmp_path / "cache", effort="load")
    stage = measure_in_runtime(SCOPE, model, target(*HERE))
    done, kept = [(StageName.RUNTIME, EventKind.DONE)], [(StageName.RUNTIME, EventKind.CACHED)]
    assert (kinds(stage, given), kinds(stage, given)) == (done, kept)
    assert kinds(stage, given, remeasure=True) == done
    assert kinds(measure_in_runtime(SCOPE, model, target("host:onnxruntime", "cpu-x2")), given) == done
    assert kinds(stage, replace(given, host=replace(given.host, cores=64))) == done
    assert kinds(measure_in_runtime(SCOPE, file(tmp_path, b"two"), target(*HERE)), given) == done
    monkeypatch.setattr(runtimes, "find_version", lambda _package: "99.0")
    assert kinds(measure_in_runtime(SCOPE, model, target(*HERE)), given) == done


def test_a_longer_measurement_is_as_good_and_a_disturbed_one_is_not_kept(quick: list[str], tmp_path: Path) -> None:
    given, model = materials(tmp_path / "cache", effort="survey"), file(tmp_path, b"one")
    kinds(measure_in_runtime(SCOPE, model, target(*HERE), "disturbed"), given)
    kinds(measure_in_runtime(SCOPE, model, target(*HERE), "disturbed"), given)
    kinds(measure_in_runtime(SCOPE, model, target(*HERE), "search"), given)
    kinds(measure_in_runtime(SCOPE, model, target(*HERE)), given)
    assert quick == ["disturbed", "disturbed", "search"]


def test_a_browser_measures_with_an_interval(given: Materials, pool: ChildPool, tmp_path: Path) -> None:
    """LiteRT.js is measured by ``tests/integrations/browser/test_connection.py``."""
    chromium()
    require_onnx()
    require_runtime(ONNXRUNTIME)
    stage = measure_in_runtime(SCOPE, file(tmp_path, small_models.classifier()), target("chromium", "onnxruntime-wasm"))
    found = walk(stage, given, pool)
    assert found.latency.low is not None
    assert " in Chromium " in found.latency.source
    assert (found.remote.page_bytes or 0) > 9_000_000


def test_an_arena_is_measured_once(pool: ChildPool, tmp_path: Path) -> None:
    require_micro()
    model = small_models.quantized(small_models.classifier(), tmp_path, 32)
    given, stage = materials(tmp_path / "cache"), check_in_interpreter(SCOPE, file(tmp_path, model), "tflite-micro")
    found = walk(stage, given, pool)
    assert 0 < found.arena.value < 16_000
    assert "TensorFlow Lite Micro" in found.arena.source
    assert walk(stage, given) == found
    assert kinds(stage, given) == [(StageName.ARENA, EventKind.CACHED)]


def test_a_file_that_the_interpreter_crashes_on_fails(tmp_path: Path) -> None:
    require_micro()
    stage = check_in_interpreter(SCOPE, file(tmp_path, small_models.crashing()), "tflite-micro")
    end = must_fail(StageAborted, "", walk, stage, materials(tmp_path / "cache"))
    assert end.status is Status.FAILED
