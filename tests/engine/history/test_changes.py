"""Cards that changed since a run, which run came from which, and another runtime of this machine."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import OnAllImages, Provenance, Status, UnknownFacts, UsageError
from advisor.devices import load_known_devices
from advisor.engine import DevicePredictor, Devices, LoadedRun, Request, Session, TargetDevice
from advisor.engine._history import changes, origins
from advisor.engine._history.reevaluate import evaluate_cards, merge_evaluations
from advisor.engine._history.remeasurement import run_here
from advisor.store import RunFolder
from tests.builders import evaluation, must_fail, present, write_file
from tests.devices.requirements import require_micro, require_onnx
from tests.measurement import small_models
from tests.run_folders import candidates, write_run
from tests.tables import with_cases

NAME, OTHER = "mobilenet_v1_0.25_224", "squeezenet_1.1_227"
ONNX = "host:onnxruntime"
REQUEST = {"threads": [1], "candidates": ["net"]}


def _run(tmp_path: Path, cards: object, **request: object) -> LoadedRun:
    asked = {"candidates": [NAME, OTHER], **request}
    return LoadedRun.load(write_run(tmp_path, [evaluation(NAME)], request=asked, manifest={"cards": cards}).path)


def test_a_card_is_added_or_changed_if_it_was_evaluated(tmp_path: Path) -> None:
    now = changes.find_card_changes(_run(tmp_path, {})).hashes
    assert set(now) == {NAME, OTHER}
    for cards, added, changed in (
        (now, (), ()),
        ({NAME: "another"}, (OTHER,), (NAME,)),
        ({NAME: "another", OTHER: "another"}, (), (NAME,)),
    ):
        found = changes.find_card_changes(_run(tmp_path, cards))
        assert (found.added, found.changed, found.remark) == (added, changed, "")


@with_cases
def test_unknown_changes_are_told(tmp_path: Path, cards: object, request_: dict[str, object], words: str) -> None:
    found = changes.find_card_changes(_run(tmp_path, cards, **request_))
    assert found.names == ()
    assert words in found.remark


def test_new_cards_are_evaluated_only_where_nothing_has_to_be_trained(tmp_path: Path) -> None:
    without = changes.find_changes(_run(tmp_path, {NAME: "another"}), DevicePredictor())
    assert without.new_cards == (OTHER, NAME)
    assert without.remarks == ()
    with_images = changes.find_changes(_run(tmp_path, {NAME: "another"}, data="photos"), DevicePredictor())
    assert with_images.new_cards == ()
    assert f"{OTHER}, {NAME} would have to be trained" in with_images.remarks[0]
    assert "advisor search --request" in with_images.remarks[0]


def test_cards_are_searched_with_the_run_s_own_question(tmp_path: Path) -> None:
    run, asked = _run(tmp_path, {}, max_trials=3), list[Request]()

    def search(request: Request) -> RunFolder:
        asked.append(request)
        return run.folder

    assert evaluate_cards(run, [OTHER], tmp_path / "new", search) is run.folder
    (request,) = asked
    assert request.question.candidates == (OTHER,)
    assert request.question.limits == run.question.limits
    assert (request.execution.max_trials, request.folder) == (0, tmp_path / "new")


def test_of_two_evaluations_with_one_key_the_later_stays() -> None:
    first, second, later = evaluation("one"), evaluation("two"), evaluation("one", latency=1)
    assert merge_evaluations([first, second], [later]) == (later, second)


@pytest.fixture
def parent(tmp_path: Path) -> RunFolder:
    return write_run(tmp_path, manifest={"updated": "2026-01-01T00:00:00+00:00"})


def _child(parent: RunFolder, device: str = "galaxy-s24", **more: object) -> RunFolder:
    run = LoadedRun.load(parent.path)
    child = origins.Child(run.evaluations[:2], device, "e" * 64, {"devices": {device: "f"}}, **more)  # type: ignore[arg-type]
    return child.write(run, origins.read_origin(parent.path))


def test_a_child_names_parent_and_root_and_shares_the_files_of_its_evaluations_alone(parent: RunFolder) -> None:
    child = _child(parent, answers={"answers/best.npy": [0, 1]})
    name, asked = parent.path.name, LoadedRun.load(parent.path).question
    assert origins.read_origin(parent.path) == origins.Origin(
        parent.path, "", name, "host", "", "2026-01-01T00:00:00+00:00"
    )
    origin = origins.read_origin(_child(child).path)
    assert (origin.parent, origin.root) == (child.path.name, parent.path.name)
    assert (origin.device, origin.environment) == ("galaxy-s24", "e" * 64)
    manifest = LoadedRun.load(child.path).manifest
    assert manifest["devices"] == {"galaxy-s24": "f"}
    assert manifest["versions"] == LoadedRun.load(parent.path).manifest["versions"]
    names, left_out = {path.name for path in child.artefacts.iterdir()}, candidates()[2]
    assert len(names) == 2
    assert not any(left_out.configuration.card in name for name in names)
    assert (child.path / "answers" / "best.npy").is_file()
    assert LoadedRun.load(child.path).question.devices == ("galaxy-s24",)
    assert LoadedRun.load(child.path).question.limits == asked.limits
    assert LoadedRun.load(_child(parent, "host").path).question == asked


def test_a_child_keeps_the_files_beside_the_judged_one(parent: RunFolder) -> None:
    first, *_ = parent.evaluations()
    for name in ("all", "unknown"):
        (parent.artefacts / f"{name}.tflite").write_bytes(name.encode())
    made = OnAllImages("artifacts/all.tflite", "a" * 64, size_bytes=3)
    unknown = UnknownFacts(file="artifacts/unknown.tflite", sha256="b" * 64, size_bytes=7)
    parent.append(replace(first, on_all=made, unknown=unknown))
    child = _child(parent)
    assert [(child.artefacts / f"{name}.tflite").read_bytes() for name in ("all", "unknown")] == [b"all", b"unknown"]
    assert next(each.on_all for each in child.evaluations() if each.on_all) == made


def test_the_latest_descendant_for_a_device_is_the_last_whole_one_of_the_same_root(parent: RunFolder) -> None:
    first, last, killed = (_child(parent) for _ in range(3))
    (killed.path / "request.yaml").unlink()
    known = origins.read_origins(parent.path.parent)
    assert [origin.path.name for origin in known] == [run.path.name for run in (parent, first, last)]
    assert present(origins.find_latest_descendant(parent.path.name, "galaxy-s24", known)).path.name == last.path.name
    assert origins.find_latest_descendant(parent.path.name, "host", known) == known[0]
    assert origins.find_latest_descendant("another", "host", known) is None


@pytest.fixture
def run(tmp_path: Path, shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run on this machine with one real file."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(shared_folder / "exports"))
    made = write_run(tmp_path / "runs", [], request=REQUEST, manifest=changes.host_manifest({}))
    content, path = small_models.classifier(), made.path / "models" / "net-head-float32.tflite"
    write_file(path, content)
    file = {"artefact": "models/net-head-float32.tflite", "artefact_sha256": hashlib.sha256(content).hexdigest()}
    made.append(replace(evaluation("net", "float32", threads=1), **file))
    return made


def no_search(_request: Request) -> RunFolder:
    raise AssertionError("nothing is searched")


@pytest.mark.slow
def test_a_runtime_that_is_added_measures_the_files(run: RunFolder) -> None:
    require_onnx()
    session = Session(Devices.choose([ONNX], []), no_search)
    found = next(each for each in session.reevaluate(run.path) if each.device == ONNX)
    assert found.causes == (f"the device {ONNX} was added",)
    (row,) = LoadedRun.load(present(found.run)).evaluations
    assert row.status is Status.OK, row.reason
    assert (row.configuration.target.device, row.configuration.target.threads) == (ONNX, 1)
    assert present(row.latency).provenance is Provenance.MEASURED
    again = next(each for each in session.reevaluate(run.path) if each.device == ONNX)
    assert again.run == found.run


@pytest.mark.integration
def test_files_for_a_microcontroller_run_here_while_they_are_there(run: RunFolder) -> None:
    require_micro()
    profile, target = load_known_devices().select("stm32h743:tflite-micro-cpu-x1")
    device = TargetDevice("stm32h743", profile, target)
    (here,), loaded = run.evaluations(), LoadedRun.load(run.path)
    gone = replace(here, artefact="models/gone.tflite")
    found, left = run_here(loaded, [here, gone], device, lambda _text: None)
    assert present(found.memory).source.startswith("TensorFlow Lite Micro")
    assert left == gone


def test_a_report_does_not_measure(run: RunFolder) -> None:
    require_onnx()
    refused = must_fail(UsageError, f"no measurements with '{ONNX}'", LoadedRun.load, run.path, {"must_run_on": [ONNX]})
    assert f"--device {ONNX}" in refused.hint
