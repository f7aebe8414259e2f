"""A stored run is decided anew; its manifest; it is resumed only with the search space that it began with."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import Catalogue
from advisor.compression import RECIPES
from advisor.core import UsageError, WeightsFile
from advisor.engine import LoadedRun, resolve
from advisor.engine._history.manifest import (
    describe_run,
    find_first_cards,
    keep_thread_counts,
    require_first_weights,
    write_images,
    write_manifest,
)
from advisor.engine._history.run_inputs import read_stored_request
from advisor.engine._history.unfinished import read_unfinished_search
from advisor.engine._space.candidates import Candidates
from advisor.engine._space.resolved import Resolved
from advisor.engine._space.resolving import resolve_cards
from advisor.store import RunFolder
from tests.builders import must_fail, present
from tests.engine.pipeline.boxed import boxed_images
from tests.run_folders import candidates, write_run
from tests.tables import with_cases

NAMES = ("mobilenet_v1_0.25_224", "squeezenet_1.1_227")
RECIPE_NAMES = ("float32", "int8")


def test_a_request_of_another_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    with (run.path / "request.yaml").open("a") as file:
        file.write("horizon: 3\n")
    assert "manifest.json" in must_fail(UsageError, "unknown option 'horizon'", LoadedRun.load, run.path).hint


@pytest.mark.parametrize("running", [True, False])
def test_a_search_without_an_end_says_how_far_it_came(tmp_path: Path, running: bool) -> None:
    """A configuration on two devices counts once."""
    on_two_devices = [
        replace(row, configuration=replace(row.configuration, target=replace(row.configuration.target, device=device)))
        for row in candidates()
        for device in ("host", "pixel-8")
    ]
    run = LoadedRun.load(write_run(tmp_path, on_two_devices, manifest={"configurations": 100}).path)
    unfinished = present(read_unfinished_search(run, running))
    assert (unfinished.evaluated, unfinished.configurations, unfinished.running) == (3, 100, running)
    state = "Search is running" if running else "The search has not ended"
    said = unfinished.sentence("runs/latest")
    assert said.startswith(f"{state}, 3 of 100 configurations have results (")
    assert said.endswith("continue it: advisor search --resume runs/latest")


@pytest.mark.parametrize("manifest", [{"configurations": 100, "stopped": {"why": "interrupt"}}, {}])
def test_a_search_that_ended_or_has_no_plan_is_not_unfinished(tmp_path: Path, manifest: dict[str, object]) -> None:
    assert read_unfinished_search(LoadedRun.load(write_run(tmp_path, manifest=manifest).path), False) is None


def test_cards_that_a_run_considered_before_it_was_resumed_stay_in_it(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "run")
    missing = {"third": "no mirror", "fourth": "no mirror"}
    write_manifest(run, {"cards": {"first": "1", "second": "2"}, "without_weights": missing, "stopped": "interrupt"})
    write_manifest(run, {"cards": {"second": "3"}, "weights": {"fourth": {}}})
    assert (manifest := run.read_json("manifest.json"))["cards"] == {"first": "1", "second": "3"}
    assert (manifest["without_weights"], "stopped" in manifest) == ({"third": "no mirror"}, False)


def test_a_password_on_the_command_line_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["advisor", "search", "--storage=postgresql://me:hidden@host/db"])
    boxed = boxed_images()
    images = replace(boxed, dataset=replace(boxed.dataset, fingerprint="f" * 64))
    resolved = replace(resolve_cards(resolve({"seed": 7, "time_limit": "10min"})), images=images)
    none = Candidates((), {}, {"lost": "no mirror"})
    manifest = describe_run(resolved, none, resolved.plan(none))
    assert "hidden" not in str(manifest)
    assert manifest["seeds"] == {"seed": 7}
    assert manifest["time_limit"] == "10min"
    assert manifest["without_weights"] == {"lost": "no mirror"}
    assert manifest["data_fingerprint"] == "f" * 64


def test_a_run_from_before_fine_tuning_was_a_default_keeps_its_heads(tmp_path: Path) -> None:
    run = write_run(tmp_path, [], request={"data": "photos"}, manifest={"space": {"training": ["head"]}})
    assert read_stored_request(run)["training"] == ["head"]
    assert LoadedRun.load(run.path).question.trainings == ("head",)
    newer = write_run(
        tmp_path, [], request={"data": "photos"}, manifest={"space": {"training": ["head", "finetune_cached"]}}
    )
    assert LoadedRun.load(newer.path).question.tuning_limited


def test_the_boxes_of_each_class_are_in_the_facts_of_the_images(tmp_path: Path) -> None:
    run, images = RunFolder.create(tmp_path, "run"), boxed_images()
    write_images(run, images)
    assert run.read_json("dataset.json")["boxes_per_class"] == {"cat": 12, "dog": 6}
    assert run.read_json("dataset.json")["pictures_per_class"] == {"all images": 12}
    write_images(run, replace(images, boxes=None))
    assert "boxes_per_class" not in run.read_json("dataset.json")


def _weights(path: Path, digit: str) -> WeightsFile:
    return WeightsFile(path, digit * 64, "mirror", "", "keras", "")


@pytest.fixture(scope="module")
def resolved() -> Resolved:
    catalogue = Catalogue.load()
    recipes = {recipe.name: recipe for recipe in RECIPES if recipe.name in RECIPE_NAMES}
    found = resolve_cards(resolve({"candidates": NAMES, "threads": [1]}))
    return replace(found, recipes=recipes, cards=tuple(catalogue.card(name) for name in NAMES))


@pytest.fixture
def candidates_of_resume(resolved: Resolved, tmp_path: Path) -> Candidates:
    weights = {name: _weights(tmp_path / name, digit) for name, digit in zip(NAMES, "12", strict=True)}
    return Candidates(resolved.cards, weights, {})


@pytest.fixture
def run(resolved: Resolved, candidates_of_resume: Candidates, tmp_path: Path) -> RunFolder:
    """A run that has just chosen its search space."""
    folder = RunFolder.create(tmp_path / "runs", "run")
    write_manifest(folder, describe_run(resolved, candidates_of_resume, resolved.plan(candidates_of_resume)))
    return folder


def _edit(run: RunFolder, change: dict[str, Any]) -> None:
    """Change entries of the manifest, and those of its sections one by one."""
    manifest = run.read_json("manifest.json")
    for name, value in change.items():
        manifest[name] = {**manifest[name], **value} if isinstance(value, dict) else value
    run.write_json("manifest.json", manifest)


def test_an_unchanged_space_is_accepted_and_cards_that_are_new_since_are_left_out(
    run: RunFolder, resolved: Resolved, candidates_of_resume: Candidates
) -> None:
    assert find_first_cards(run, resolved) == resolved.cards
    require_first_weights(run, candidates_of_resume)
    killed = RunFolder.create(run.path.parent, "killed before it chose")
    assert find_first_cards(killed, resolved) == resolved.cards
    require_first_weights(killed, candidates_of_resume)
    more = (Catalogue.load().card("mobilenet_v2_1.0_224"), *reversed(resolved.cards))
    assert find_first_cards(run, replace(resolved, cards=more)) == resolved.cards


@with_cases
def test_another_space_is_refused(run: RunFolder, resolved: Resolved, change: dict[str, Any], words: str) -> None:
    _edit(run, change)
    assert "start a new run" in must_fail(UsageError, f"--resume: {words}", find_first_cards, run, resolved).hint


def test_a_machine_with_other_cores_goes_on_with_the_thread_counts_of_the_run(run: RunFolder) -> None:
    _edit(run, {"space": {"threads": [1, 7]}})
    assert keep_thread_counts(run, resolve({"candidates": NAMES})).question.thread_counts == (1, 7)
    assert keep_thread_counts(run, resolve({"candidates": NAMES, "threads": [2]})).question.thread_counts == (2,)


def test_gone_or_other_weights_are_refused(run: RunFolder, candidates_of_resume: Candidates, tmp_path: Path) -> None:
    other = {**candidates_of_resume.weights, NAMES[1]: _weights(tmp_path / "other", "3")}
    with pytest.raises(UsageError, match=f"the weights of {NAMES[1]} have changed since the run began"):
        require_first_weights(run, replace(candidates_of_resume, weights=other))
    left = {NAMES[0]: candidates_of_resume.weights[NAMES[0]]}
    with pytest.raises(UsageError, match=f"the weights of {NAMES[1]} are no longer available: the mirror is down"):
        require_first_weights(run, Candidates(candidates_of_resume.cards, left, {NAMES[1]: "the mirror is down"}))
