"""Earlier runs answered again: devices by prediction, another runtime by measuring, new cards by a search."""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Provenance, Status, UsageError
from advisor.engine import Devices, LoadedRun, Reevaluation
from advisor.engine._history.changes import host_manifest
from advisor.engine._history.compare import ComparisonResult
from advisor.store import Problem, RunFolder, chain_lines
from advisor.store._run_place import GITIGNORE
from tests.builders import interval, must_fail, present
from tests.engine.history.with_search import reevaluate, reevaluate_all
from tests.makers.searches import Searched
from tests.predictor import REQUEST, rows
from tests.run_folders import write_run

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that was evaluated on this machine, with the runtime that is installed."""
    return write_run(tmp_path / "runs", rows(), request=REQUEST, manifest=host_manifest({}))


def on(name: str, folders: Sequence[Path] = ()) -> Devices:
    return Devices.choose([name], list(folders))


def answered(results: Sequence[Reevaluation], device: str) -> Reevaluation:
    return next(result for result in results if result.device == device)


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_slower_device_changes_the_pick_by_predictions_alone_and_the_parent_is_not_touched(run: RunFolder) -> None:
    before = contents(run.path)
    found = answered(reevaluate(run.path, on("raspberry-pi-4")), "raspberry-pi-4")
    assert contents(run.path) == before
    assert found.causes == ("the device raspberry-pi-4 was added",)
    assert found.comparison is not None
    assert found.comparison.result is ComparisonResult.CHANGED
    assert found.changed
    assert "inception_v3_299 float32 on raspberry-pi-4" in found.comparison.reason
    assert "breaks the budget: p90 latency" in found.comparison.reason
    child = LoadedRun.load(present(found.run))
    assert child.name.endswith("-again-raspberry-pi-4")
    assert (run.path.parent / "latest").resolve() == run.path  # it stays what a search made
    assert Problem.list_in_run(child.folder) == ()
    origin = child.manifest["reevaluated"]
    assert (origin["parent"], origin["root"], origin["device"]) == (run.path.name, run.path.name, "raspberry-pi-4")
    assert child.question.devices == ("raspberry-pi-4",)
    accuracies = {row.configuration.card: row.accuracy for row in rows()}
    for row in child.evaluations:
        low, value, high = interval(present(row.latency))
        assert present(row.latency).provenance in (Provenance.PREDICTED, Provenance.PUBLISHED)
        assert low < value < high
        assert present(row.latency_p90).value == pytest.approx(high, rel=0.05)
        assert (row.memory, row.timing) == (None, None)
        assert row.accuracy == accuracies[row.configuration.card]


def test_what_git_keeps_of_a_run_is_enough_for_another_device(run: RunFolder) -> None:
    named = {line[1:].partition("/")[0] for line in GITIGNORE.splitlines() if line.startswith("!")}
    left_out = [path for path in run.path.iterdir() if path.name not in named]
    assert run.artefacts in left_out
    for path in left_out:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    found = answered(reevaluate(run.path, on("raspberry-pi-4")), "raspberry-pi-4")
    assert present(found.comparison).result is ComparisonResult.CHANGED


def test_a_device_of_integers_only_skips_the_rest_and_is_a_change_also_after_a_time_limit(run: RunFolder) -> None:
    edited(run, stopped={"why": "time_limit"})
    found = answered(reevaluate(run.path, on("coral-usb")), "coral-usb")
    assert found.run is not None
    assert {row.status for row in LoadedRun.load(found.run).evaluations} == {Status.SKIPPED}
    assert all("takes int8, not float32" in row.reason for row in LoadedRun.load(found.run).evaluations)
    assert present(found.comparison).result is ComparisonResult.CHANGED


def test_what_changed_once_is_answered_once(run: RunFolder) -> None:
    """Asked again, the same run is found; since the last time, nothing is new."""
    first = answered(reevaluate(run.path, on("raspberry-pi-4")), "raspberry-pi-4")
    again = answered(reevaluate(run.path, on("raspberry-pi-4")), "raspberry-pi-4")
    assert again.run == first.run
    assert again.changed
    since = answered(reevaluate(run.path, on("raspberry-pi-4"), since_last=True), "raspberry-pi-4")
    assert since.run is None
    assert not since.changed
    assert len(list(run.path.parent.glob("2*"))) == 2


def test_every_search_is_answered_and_a_damaged_one_is_passed_over(run: RunFolder) -> None:
    out = run.path.parent
    other = write_run(out, rows(), request=REQUEST, name="other", manifest=host_manifest({}))
    damaged = write_run(out, rows(), name="damaged", manifest=host_manifest({}))
    (damaged.path / "request.yaml").write_text("budget: [")
    found = list(reevaluate_all(out, on("raspberry-pi-4")))
    assert {result.parent for result in found if result.changed} == {run.path.name, other.path.name}
    errors = [result for result in found if result.error]
    assert [result.parent for result in errors] == [damaged.path.name]
    assert "request.yaml" in errors[0].error


def test_a_search_that_ended_before_its_first_result_or_while_it_was_written_is_none(run: RunFolder) -> None:
    early = write_run(run.path.parent, [], request=REQUEST, manifest={"stopped": {"why": "time_limit"}})
    (found,) = reevaluate(early.path, on("raspberry-pi-4"))
    assert found.error.startswith("Time ran out before the first result")
    assert found.run is None
    found = answered(reevaluate(run.path, on("raspberry-pi-4")), "raspberry-pi-4")
    assert found.run is not None
    (found.run / "request.yaml").unlink()
    again = answered(reevaluate(run.path, on("raspberry-pi-4")), "raspberry-pi-4")
    assert present(again.run) != found.run


def edited(run: RunFolder, **changes: Any) -> None:
    run.write_json("manifest.json", {**run.read_json("manifest.json"), **changes})


@pytest.fixture
def searched(by_metric: Searched, tmp_path: Path) -> RunFolder:
    """A copy of a real run on pictures."""
    shutil.copytree(by_metric.run.path, tmp_path / "runs" / "20260101-000000-photos")
    return RunFolder.open(tmp_path / "runs" / "20260101-000000-photos")


def test_another_runtime_is_measured_and_scored_anew(searched: RunFolder) -> None:
    edited(searched, versions={"ai-edge-litert": "2.2.0"})
    before = contents(searched.path)
    (found,) = reevaluate(searched.path, Devices())
    assert found.causes == ("ai-edge-litert 2.2.0 -> 2.3.0",)
    assert found.remarks == ()
    former, latter = LoadedRun.load(searched.path), LoadedRun.load(present(found.run))
    assert len(latter.evaluations) == len(former.evaluations)
    accuracies = {e.configuration.key: (e.accuracy, e.holdout_accuracy) for e in former.evaluations}
    assert any(e.holdout_accuracy for e in latter.evaluations)
    for row in latter.evaluations:
        if row.status is Status.OK:
            assert row.configuration.target.runtime == "ai-edge-litert==2.3.0"
            assert present(row.latency).provenance is Provenance.MEASURED
            assert (row.accuracy, row.holdout_accuracy) == accuracies[row.configuration.key]
    assert latter.manifest["versions"]["ai-edge-litert"] == "2.3.0"
    assert Problem.list_in_run(latter.folder) == ()
    assert contents(searched.path) == before


def test_a_pick_for_a_new_device_that_did_not_run_on_the_hold_out_runs_there_first(searched: RunFolder) -> None:
    known = {row.artefact: row.holdout_accuracy for row in searched.evaluations()}
    unjudged = [replace(row, holdout_accuracy=None, holdout_answers=None) for row in searched.evaluations()]
    searched.write(searched.evaluations_file.name, chain_lines(unjudged)[0])
    edited(searched)
    found = answered(reevaluate(searched.path, on("raspberry-pi-4")), "raspberry-pi-4")
    pick = present(LoadedRun.load(present(found.run)).decision.pick)
    assert present(pick.holdout_accuracy) == known[pick.artefact]


def test_a_run_of_another_split_is_not_scored_on_images_that_it_learnt_from(searched: RunFolder) -> None:
    edited(searched, versions={"ai-edge-litert": "2.2.0"})
    split = searched.read_json("split.json")
    searched.write_json("split.json", {**split, "train": split["holdout"], "holdout": split["train"]})
    searched.reseal("split.json")
    (found,) = reevaluate(searched.path, Devices())
    assert "splits the images in another way" in found.remarks[0]
    assert found.run is not None
    accuracies = {e.configuration.key: e.holdout_accuracy for e in searched.evaluations()}
    for row in LoadedRun.load(found.run).evaluations:
        assert row.holdout_accuracy == accuracies[row.configuration.key]


def test_images_that_are_gone_are_said_and_the_accuracy_kept(searched: RunFolder, tmp_path: Path) -> None:
    edited(searched, versions={"ai-edge-litert": "2.2.0"})
    searched.write_request({**searched.read_request(), "data": str(tmp_path / "gone")})
    searched.reseal("request.yaml")
    lost = next(e for e in searched.evaluations() if e.configuration.compression == "int8")
    (searched.path / lost.artefact).unlink()
    (found,) = reevaluate(searched.path, Devices())
    assert "not scored again" in found.remarks[0]
    rows_now = {e.configuration.key: e for e in LoadedRun.load(present(found.run)).evaluations}
    assert rows_now[lost.configuration.key].status is Status.FAILED
    assert "is missing" in rows_now[lost.configuration.key].reason
    kept = next(e for e in searched.evaluations() if e.configuration.compression == "float32")
    assert rows_now[kept.configuration.key].accuracy == kept.accuracy
    assert rows_now[kept.configuration.key].holdout_accuracy == kept.holdout_accuracy


def test_a_changed_card_is_evaluated_where_nothing_is_trained(
    without_images: Searched, warm_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    shutil.copytree(without_images.run.path, tmp_path / "runs" / "20260101-000000-x")
    run = RunFolder.open(tmp_path / "runs" / "20260101-000000-x")
    edited(run, cards=dict.fromkeys(run.read_json("manifest.json")["cards"], "another"))
    (found,) = reevaluate(run.path, Devices())
    assert found.causes == ("changed in the catalogue: mobilenet_v1_0.25_224",)
    child = LoadedRun.load(present(found.run))
    assert {e.configuration for e in child.evaluations} == {e.configuration for e in run.evaluations()}
    assert Problem.list_in_run(child.folder) == ()
    assert reevaluate(present(found.run), Devices())[0].run is None


def test_this_machine_is_no_device_to_add() -> None:
    must_fail(UsageError, "is this machine", on, "host")
