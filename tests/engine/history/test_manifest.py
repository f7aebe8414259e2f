"""The manifest of a run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.engine.history.loaded_run import load_run, stored_request
from advisor.engine.history.manifest import describe_run, write_images, write_manifest
from advisor.engine.question import resolve
from advisor.engine.space.candidates import Candidates
from advisor.engine.space.resolved import resolve_cards
from advisor.store import RunFolder
from tests.engine.pipeline.boxed import boxed_images
from tests.run_folders import write_run


def test_cards_that_a_run_considered_before_it_was_resumed_stay_in_it(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "run")
    write_manifest(run, {"cards": {"first": "1", "second": "2"}, "stopped": "interrupt"})
    write_manifest(run, {"cards": {"second": "3"}})
    manifest = run.read_json("manifest.json")
    assert manifest["cards"] == {"first": "1", "second": "3"}
    assert "stopped" not in manifest


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
    assert stored_request(run)["training"] == ["head"]
    assert load_run(run.path).question.trainings == ("head",)
    newer = write_run(
        tmp_path, [], request={"data": "photos"}, manifest={"space": {"training": ["head", "finetune_cached"]}}
    )
    assert load_run(newer.path).question.tuning_limited


def test_the_boxes_of_each_class_are_in_the_facts_of_the_images(tmp_path: Path) -> None:
    run, images = RunFolder.create(tmp_path, "run"), boxed_images()
    write_images(run, images)
    assert run.read_json("dataset.json")["boxes_per_class"] == {"cat": 12, "dog": 6}
    assert run.read_json("dataset.json")["pictures_per_class"] == {"all images": 12}
    write_images(run, replace(images, boxes=None))
    assert "boxes_per_class" not in run.read_json("dataset.json")
