"""From a run folder on disk to its reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from advisor.core.quantity import Provenance, Quantity
from advisor.datasets.boxes.values import ONE_CLASS
from advisor.engine.question import resolve
from advisor.reporting.files import write_all
from advisor.reporting.phrases import so_far
from advisor.reporting.view import RunView, load_view
from advisor.store import RunFolder
from advisor.tasks import CLASSIFICATION, DETECTION
from tests.builders import evaluation
from tests.reporting.views import run_view
from tests.run_folders import images, write_run


def test_stored_run_is_decided_and_reported_as_it_was(tmp_path: Path) -> None:
    made = run_view(data=False)
    folder = RunFolder.create(tmp_path, "test")
    folder.write_request(resolve({"budget": "50ms", "size_budget": "8MB"}).written)
    for each in made.evaluations:
        folder.append(each)

    view = load_view(RunFolder.open(folder.path))

    assert view.pick_key == made.pick_key
    assert view.front_keys == made.front_keys
    assert view.dataset is None
    assert {path.name for path in write_all(view, folder.path)} <= {path.name for path in folder.path.iterdir()}


def test_before_the_first_result_nothing_has_failed_and_there_is_no_next_command(tmp_path: Path) -> None:
    view = load_view(write_run(tmp_path, (), manifest={"configurations": 10}), running=True)
    assert view.decision.reason == "No candidate has a result yet."
    assert view.unfinished_sentence.startswith("Search is running, 0 of 10 ")
    assert view.next_command == ""


def test_the_answer_so_far_is_one_line_with_its_figures(tmp_path: Path) -> None:
    assert so_far(load_view(write_run(tmp_path))) == "so far: best int8, 92.0 %, 20.0 ms"
    nothing = write_run(tmp_path, request={"budget": "1ms"}, name="too-strict")
    assert so_far(load_view(nothing)) == "so far nothing meets the budget; closest is fast int8, 84.0 %, 4.00 ms"
    assert so_far(load_view(write_run(tmp_path, (), name="empty"))) == ""


def test_the_answer_so_far_has_its_accuracy_on_the_hold_out_once_it_is_known(tmp_path: Path) -> None:
    judged = replace(evaluation("best"), holdout_accuracy=Quantity(90.5, "%", Provenance.MEASURED))
    assert "% (90.5 % on the hold-out), " in so_far(load_view(write_run(tmp_path, [judged])))


def test_a_run_has_the_task_and_the_metric_that_it_was_asked_for(detectors: RunView) -> None:
    assert (detectors.task, detectors.metric) == (DETECTION, "mAP@0.5")
    assert (run_view().task, run_view().metric) == (CLASSIFICATION, "top-1")


def test_a_run_from_before_there_were_tasks_is_one_of_classification(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    run.write_request({"budget": "50ms"})
    assert load_view(run).task is CLASSIFICATION


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
