"""The user's images in numbers, read from a run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from advisor.datasets.boxes.values import ONE_CLASS
from advisor.reporting.view import RunView, load_view
from tests.run_folders import images, write_run


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


def test_the_classes_of_detectors_are_those_of_the_boxes(detectors: RunView) -> None:
    dataset = detectors.dataset
    assert dataset is not None
    assert (dataset.classes, dataset.counted) == (("cat", "dog", "owl"), "60, 120 boxes")
    assert dataset.images == 60
    plain = replace(dataset, boxes_per_class={})
    assert (plain.classes, plain.counted) == ((ONE_CLASS,), "60")
