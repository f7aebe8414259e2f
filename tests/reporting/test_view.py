"""From a run folder to its reports and its schema, and what the answer says of the accuracy to expect."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core import (
    BoxFacts,
    Configuration,
    Evaluation,
    ImageAnswers,
    NewConditions,
    Provenance,
    Quantity,
    Status,
    Target,
)
from advisor.datasets import DEMO_NOTE, ONE_CLASS
from advisor.engine import LoadedRun, resolve
from advisor.reporting import RunView, so_far, write_all
from advisor.reporting._figures import key_figures
from advisor.reporting._files import SCHEMA_VERSION, recommendation_json
from advisor.reporting._foundations import describe_certainty, list_expectations
from advisor.store import RunFolder
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from tests import documents
from tests.builders import evaluation
from tests.reporting import views
from tests.reporting.views import empty_view, infeasible_view, judged_view, run_view, running_view, unknown_view
from tests.run_folders import images, write_run
from tests.tables import with_cases

NOTHING_TRIED = {"auroc": None, "float_auroc": None, "accepted": None, "by_class": {}, "kept": None, "precision": None}
KINDS = [judged_view(), run_view(data=False), infeasible_view(), empty_view(), running_view(), running_view(0)]
HELD = Quantity(90.7, "%", Provenance.MEASURED, 85.3, 94.3, 0.95, 162, "hold-out")
ESTIMATE = Quantity(62.4, "%", Provenance.ESTIMATED, 45.2, 75.9, 0.95, 648, "clusters")
PICK = Evaluation(
    Configuration("net", "head", "int8", Target("host", "litert", "cpu", 1)),
    Status.OK, accuracy=replace(HELD, value=92.0, n=130), holdout_accuracy=HELD, new_conditions=ESTIMATE,
)  # fmt: skip


def test_stored_run_is_decided_and_reported_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run_view(data=False)
    folder = RunFolder.create(tmp_path, "test")
    folder.write_request(resolve({"budget": "50ms", "size_budget": "8MB", "training": "none"}).written)
    for each in made.evaluations:
        folder.append(each)
    opened = RunFolder.open(folder.path)
    monkeypatch.setattr(RunFolder, "open", None)  # a second one would walk the whole folder again
    view = RunView.load(opened)
    assert view.pick_key == made.pick_key
    assert view.front_keys == made.front_keys
    assert view.next_command.endswith(f"{view.folder}/request.yaml --data YOUR_IMAGES --training head")
    assert {path.name for path in write_all(view, folder.path)} <= {path.name for path in folder.path.iterdir()}


def test_before_the_first_result_nothing_has_failed_and_there_is_no_next_command(tmp_path: Path) -> None:
    view = RunView.load(write_run(tmp_path, (), manifest={"configurations": 10}), running=True)
    assert view.decision.reason == "No candidate has a result yet."
    assert view.unfinished_sentence.startswith("Search is running, 0 of 10 ")
    assert view.next_command == ""
    stopped = RunView.load(write_run(tmp_path, (), manifest={"stopped": {"why": "interrupt"}}, name="stopped"))
    assert stopped.next_command == f"advisor search --resume {stopped.folder}"
    failed = RunView.load(write_run(tmp_path, empty_view().evaluations, name="failed"))
    again = f"advisor search --resume {failed.folder}"
    assert failed.next_topic == "another try of what failed"
    assert failed.next_command == again
    assert failed.decision.reason.endswith(" configurations: the weights cannot be fetched")


def test_the_answer_so_far_is_one_line_with_its_figures(tmp_path: Path) -> None:
    assert so_far(RunView.load(write_run(tmp_path))) == "so far: best int8, 92.0 %, 20.0 ms"
    nothing = write_run(tmp_path, request={"budget": "1ms"}, name="too-strict")
    assert so_far(RunView.load(nothing)) == "so far nothing meets the budget; closest is fast int8, 84.0 %, 4.00 ms"
    assert so_far(RunView.load(write_run(tmp_path, (), name="empty"))) == ""
    both = write_run(tmp_path, request={"budget": "1ms", "size_budget": "9kB"}, name="both")
    assert re.search(r"/request.yaml --budget [\d.]+ms --size-budget [\d.]+MB$", RunView.load(both).next_command)
    again = RunView.of_run(LoadedRun.load(both.path, {"budget": "1ms", "size_budget": "6 MB", "prefer": None}))
    assert re.search(r"^advisor report \S+-both --size-budget '6 MB' --budget [\d.]+ms$", again.next_command)
    judged = replace(evaluation("best"), holdout_accuracy=Quantity(90.5, "%", Provenance.MEASURED))
    assert "% (90.5 % on the hold-out), " in so_far(RunView.load(write_run(tmp_path, [judged], name="judged")))


def test_a_run_has_the_task_and_the_metric_that_it_was_asked_for(detectors: RunView, tmp_path: Path) -> None:
    assert (detectors.task, detectors.metric) == (DETECTION, "mAP@0.5")
    assert (run_view().task, run_view().metric) == (CLASSIFICATION, "top-1")
    before = write_run(tmp_path / "before")
    before.write_request({"budget": "50ms"})  # before there were tasks
    assert RunView.load(before).task is CLASSIFICATION


@with_cases
def test_validation_images_and_groups_are_counted_by_class(
    tmp_path: Path, split: dict[str, Any], validated: dict[str, int], groups: dict[str, int]
) -> None:
    run = write_run(tmp_path, dataset={**images({"cat": 40, "dog": 40}), "notes": ["Images come in 3 groups."]})
    run.write_json("split.json", split)
    dataset = RunView.load(run).dataset
    assert (dataset.validated_per_class, dataset.groups_per_class) == (validated, groups)
    assert dataset.notes == ("Images come in 3 groups.",)


def test_the_classes_of_detectors_are_those_of_the_boxes(detectors: RunView) -> None:
    dataset = detectors.dataset
    assert (dataset.classes, dataset.counted, dataset.images) == (("cat", "dog", "owl"), "60, 120 boxes", 60)
    plain = replace(dataset, boxes_per_class={})
    assert (plain.classes, plain.counted) == ((ONE_CLASS,), "60")


@pytest.fixture(scope="module")
def validator() -> Any:
    return documents.validator("recommendation", closed=True)


@pytest.mark.parametrize("view", [*KINDS, unknown_view(), unknown_view(**NOTHING_TRIED, others=None)])
def test_every_kind_of_answer_is_valid(validator: Any, view: RunView) -> None:
    document = json.loads(recommendation_json(view))
    assert [error.message for error in validator.iter_errors(document)] == []
    assert document["schema_version"] == SCHEMA_VERSION


def test_the_answer_of_detectors_is_valid_with_their_boxes(validator: Any, judged_detectors: RunView) -> None:
    document = json.loads(recommendation_json(judged_detectors))
    assert [error.message for error in validator.iter_errors(document)] == []
    judged = document["pick"]["details"]["holdout"]
    assert judged["per_class_recall"] == {"cat": 0.91, "dog": 0.82, "owl": None}
    assert (judged["boxes"]["threshold"], judged["boxes"]["coco"]) == (0.375, 0.512)
    assert judged["boxes"]["by_class"]["cat"]["precision"] == 0.6
    assert [image["path"] for image in judged["boxes"]["worst"]] == ["first.png", "<b>gone.png", "last.png"]
    judged["boxes"]["worst"][0]["found"][0].pop()
    assert not validator.is_valid(document)


def test_an_answer_so_far_says_how_far_the_search_came_and_every_key_is_described(validator: Any) -> None:
    unfinished = json.loads(recommendation_json(running_view()))["unfinished"]
    assert (unfinished["evaluated"], unfinished["configurations"], unfinished["running"]) == (34, 100, True)
    document = json.loads(recommendation_json(run_view()))
    assert document["unfinished"] is None
    assert set(document) == set(validator.schema["properties"])
    described = validator.schema["$defs"]
    assert set(document["pick"]) == set(described["Evaluation"]["properties"])
    unknown = json.loads(recommendation_json(unknown_view()))["pick"]["details"]["unknown"]
    assert set(unknown) == set(described["UnknownFacts"]["properties"])


def test_the_holdout_is_for_images_like_these_and_the_estimate_for_new_conditions() -> None:
    view = run_view()
    assert list_expectations(view, PICK) == (
        ("On images like these", "90.7 % (85.3\u201394.3), measured on 162 images of the hold-out"),
        ("In new conditions", "about 62 % (45\u201376), estimated for another visit, camera or day"),
    )
    (_, plain), _ = list_expectations(view, replace(PICK, holdout_accuracy=None))  # it is no finalist
    assert plain.endswith("measured on 130 images of the validation part")
    (own,) = list_expectations(view, replace(PICK, new_conditions=replace(HELD, source="own split")))
    assert own[0] == "On images like your hold-out"
    assert list_expectations(view, replace(PICK, new_conditions=None)) == ()
    alone = NewConditions(kept=1.0, kept_low=1.0, kept_high=1.0, sd=0.0, silhouette=0.1, clusters=300, images=400)
    lone = replace(PICK, new_conditions=None, expectation=alone)
    _, (name, unknown) = list_expectations(view, lone)
    assert len(list_expectations(views.with_dataset(view, notes=(DEMO_NOTE,)), lone)) == 1, "drawn images know no visit"
    assert name == "In new conditions"
    assert unknown.startswith(
        "unknown, because your images name no visits, cameras or days. Expect less: on groceries, "
    )
    assert unknown.endswith("To know it, hold out images of another visit, camera or day by a split of your own.")


def test_the_files_that_resampled_figures_pick_instead_are_named_with_their_shares() -> None:
    view = run_view()
    pick, first, *others = (e.configuration for e in view.ok if e.configuration.target.threads == 2)
    rest = dict.fromkeys((other.key for other in others[:4]), 0.05)
    chances = {first.key: 0.5, pick.key: 0.3, **rest}
    picked = replace(view.decision, pick=view.ok[1], chances=chances)
    assert view.ok[1].configuration == pick
    said = describe_certainty(replace(view, decision=picked))
    assert "With the validation images and timings drawn again, the pick stays in 30 % of the draws" in said
    assert f"otherwise it is {first.card} {first.variant_name} (50 %), " in said
    assert said.endswith(", 2 others (10 %).")
    assert describe_certainty(infeasible_view()) == ""


def test_detectors_have_the_main_figure_of_coco() -> None:
    chosen = ImageAnswers(boxes=BoxFacts(0.4, 0.6, {}, coco_interval=(0.55, 0.641)))
    held = ImageAnswers(boxes=BoxFacts(0.4, 0.5, {}))

    def figures(row: Evaluation) -> dict[str, tuple[str, str]]:
        return {figure.label: (figure.value, figure.remark) for figure in key_figures(run_view(), row)}

    validated = replace(PICK, answers=chosen)
    value, remark = figures(validated)["mAP@0.5:0.95 on validation"]
    assert value == "60.0 %"
    assert remark.startswith("95 %: 55.0\u201364.1 \u00b7 COCO's main figure")
    assert figures(replace(validated, holdout_answers=held))["mAP@0.5:0.95 on the hold-out"][0] == "50.0 %"
    assert not any("0.95" in label for label in figures(PICK))
    file = run_view().ok[0]
    packed = replace(file.file_facts, download_bytes=18_151_330, download_zstd_bytes=18_185_284)
    size = figures(replace(file, file_facts=packed))["File size"]
    assert "to download 18.2 MB in an app's package or by zstd" in size[1]
