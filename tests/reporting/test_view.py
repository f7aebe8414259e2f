"""From a run folder on disk to its reports."""

from __future__ import annotations

from pathlib import Path

from advisor.engine.question import resolve
from advisor.reporting.files import write_all
from advisor.reporting.view import load_view
from advisor.store import RunFolder
from tests.reporting.views import run_view
from tests.run_folders import images, write_run


def test_stored_run_is_decided_and_reported_as_it_was(tmp_path: Path) -> None:
    made = run_view(data=False)
    folder = RunFolder.create(tmp_path, "test")
    folder.write_request(resolve({"budget": "50ms", "size_budget": "8MB"}).written)
    for evaluation in made.evaluations:
        folder.append(evaluation)

    view = load_view(RunFolder.open(folder.path))

    assert view.pick_key == made.pick_key
    assert view.front_keys == made.front_keys
    assert view.dataset is None
    assert {path.name for path in write_all(view, folder.path)} <= {path.name for path in folder.path.iterdir()}


def test_validation_images_are_counted_by_class_from_the_split(tmp_path: Path) -> None:
    run = write_run(tmp_path, dataset=images({"cat": 40, "dog": 40}))
    run.write_json("split.json", {"classes": ["cat", "dog"], "validation": [{"class": "cat"}] * 7, "train": []})
    dataset = load_view(run).dataset
    assert dataset is not None
    assert dataset.validated_per_class == {"cat": 7, "dog": 0}


def test_a_damaged_split_leaves_them_unknown(tmp_path: Path) -> None:
    run = write_run(tmp_path, dataset=images({"cat": 40, "dog": 40}))
    run.write_json("split.json", {"validation": ["cat"]})
    dataset = load_view(run).dataset
    assert dataset is not None
    assert dataset.validated_per_class == {}


def test_groups_are_counted_by_class_over_all_parts_and_notes_are_kept(tmp_path: Path) -> None:
    run = write_run(tmp_path, dataset={**images({"cat": 40, "dog": 40}), "notes": ["Images come in 3 groups."]})
    rows = {
        part: [{"class": name, "group": group} for name, group in pairs]
        for part, pairs in {
            "train": [("cat", 0), ("dog", 1)],
            "validation": [("cat", 2)],
            "holdout": [("cat", 2)],
        }.items()
    }
    run.write_json("split.json", {"classes": ["cat", "dog"], **rows})
    dataset = load_view(run).dataset
    assert dataset is not None
    assert dataset.groups_per_class == {"cat": 2, "dog": 1}
    assert dataset.notes == ("Images come in 3 groups.",)


def test_images_without_groups_have_none(tmp_path: Path) -> None:
    run = write_run(tmp_path, dataset=images({"cat": 40}))
    run.write_json("split.json", {part: [{"class": "cat"}] for part in ("train", "validation", "holdout")})
    dataset = load_view(run).dataset
    assert dataset is not None
    assert dataset.groups_per_class == {}
