"""Images, cards and recipes of a question by its task; what the end of a search leaves out is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import Catalogue
from advisor.core import Evaluation, Limits, Status, TrainingName, UsageError
from advisor.engine import Images, Progress, Request, Role, StageName, resolve, run_search
from advisor.engine._pipeline.images import LARGE
from advisor.engine._pipeline.rule import Rules
from advisor.engine._preview import overview_of
from advisor.engine._scheduling.stop import StopKind, end_early
from advisor.engine._space.candidates import Candidates
from advisor.engine._space.question_images import read_images
from advisor.engine._space.recipes import DEFAULT_RECIPES, HEAVIER_RECIPES, choose_recipes
from advisor.engine._space.resolving import resolve_cards
from advisor.engine._space.skipped import record_unevaluated, skip_ruled_out
from advisor.store import RunFolder
from advisor.tasks import Task
from advisor.tasks._counting import COUNTING
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from advisor.tasks.segmentation import SEGMENTATION
from tests.builders import evaluation, must_fail, of_file, present
from tests.datasets.boxes.writers import WRITERS, photos, write_voc, write_without_dogs
from tests.engine.pipeline.boxed import boxed_images
from tests.engine.plans import planned
from tests.makers.searches import FORMS, SMALLEST, Searched
from tests.tables import read_table, with_cases

CARD = "mobilenet_v2_1.0_224"
CATALOGUE = Catalogue.load()
PLAN = planned(
    cards=tuple(CATALOGUE[name] for name in ("mobilenet_v1_0.25_128", "mobilenet_v2_0.35_96")),
    recipes=("float32", "float16"),
    threads=(1, 2),
    trainings=("none",),
    runtime="ai-edge-litert==2.3.0",
)
EVALUATED, UNTOUCHED = (card.name for card in PLAN.cards)


def asked(task: str = DETECTION.name, **options: Any) -> Request:
    return resolve({"task": task, "data": "boxes", **options})


def test_a_detector_has_its_own_input_and_the_macs_of_it() -> None:
    (card,) = resolve_cards(asked(candidates=[CARD])).cards
    plain = Catalogue.load()[CARD]
    assert card.input_size == DETECTION.side == 320
    assert card.macs == pytest.approx(plain.macs * (320 / 224) ** 2, abs=1)
    assert replace(card, input_size=plain.input_size, macs=plain.macs) == plain
    cards = resolve_cards(asked()).cards
    assert len(cards) > 10
    assert {card.input_size for card in cards if not card.whole} == {320}
    assert resolve_cards(asked(CLASSIFICATION.name, candidates=[CARD])).cards == (plain,)


def test_detectors_that_learnt_other_objects_are_tried_if_they_are_named_and_keep_their_input() -> None:
    assert not any(card.whole for card in resolve_cards(asked()).cards)
    cards = resolve_cards(asked(candidates=["efficientdet_lite", "ssdlite*"])).cards
    assert [card.input_size for card in cards] == [320, 320, 384, 448]
    name = cards[0].name
    assert name == "ssdlite320_mobilenet_v3_large"
    for request in (asked(COUNTING.name, candidates=[name]), asked(candidates=[name], input_size=416)):
        must_fail(UsageError, "--candidates: ssdlite320_mobilenet_v3_large", resolve_cards, request)


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    """A catalogue with a classifier and a detector of the user's own."""
    card = read_table(__file__, "texts.yaml")["card"]
    cards = (("mine", "tflite_file"), ("cells", "tflite_detector"))
    entries = "".join(card.format(name=name, architecture=kind, zeros="0" * 64) for name, kind in cards)
    (tmp_path / "team.yaml").write_text(f"family: own\ncards:{entries}", encoding="utf-8")
    return tmp_path / "team.yaml"


@with_cases
def test_a_file_for_another_task_is_refused_by_name(catalogue: Path, task: str, name: str, other: str) -> None:
    message = f"{name} is a file for {other}, and the search is for {task}"
    refused = must_fail(UsageError, message, resolve_cards, asked(task, candidates=[name], catalog=[str(catalogue)]))
    assert refused.hint == f"add --task {other}, or leave it out"
    cards = {card.name: card for card in resolve_cards(asked(task, catalog=[str(catalogue)])).cards}
    (there,) = {"mine", "cells"} & cards.keys()
    assert there != name
    assert cards[there].input_size == 32


def test_a_graph_of_another_input_is_no_detector_and_a_large_set_of_boxes_gets_no_first_look() -> None:
    with pytest.raises(UsageError, match="lcnet_1.0_224 takes images of 224 pixels only, this task 320"):
        resolve_cards(asked(candidates=["lcnet_1.0_224"]))
    images = boxed_images()
    large = replace(images, split=replace(images.split, train=tuple(range(LARGE + 1))))
    assert replace(resolve_cards(asked()), images=large).trainings == DETECTION.default
    assert replace(resolve_cards(asked(CLASSIFICATION.name)), images=large).trainings[0] == TrainingName.HEAD_SUBSET


def test_cards_that_cannot_fit_into_the_flash_are_left_out_unless_named() -> None:
    fitting = {card.name for card in resolve_cards(asked(CLASSIFICATION.name, device="stm32h743")).cards}
    assert "mobilenet_v1_0.25_224" in fitting
    assert not any(name.startswith(("resnet", "inception", "densenet")) for name in fitting)
    assert len(resolve_cards(asked(CLASSIFICATION.name, device="host,stm32h743")).cards) > len(fitting)
    assert resolve_cards(asked(CLASSIFICATION.name, device="stm32h743", candidates=["resnet_50_224"])).cards


@with_cases
def test_a_recipe_that_a_task_has_no_use_for_is_refused_and_not_offered(recipe: str, task: str) -> None:
    refused = must_fail(UsageError, "", choose_recipes, asked(task, compressions=["int8", recipe]).question)
    assert refused.message.startswith(f"--compressions: unknown '{recipe}'")
    assert "int8" in refused.hint.split(": ")[1].split(", ")
    assert recipe not in refused.hint.split(": ")[1].split(", ")
    assert recipe in choose_recipes(asked(CLASSIFICATION.name, compressions=[recipe]).question)


@pytest.mark.parametrize("task", [DETECTION, COUNTING, SEGMENTATION])
def test_a_limit_of_the_drop_brings_heavier_recipes_and_those_that_choose_by_labels_to_classifiers(task: Task) -> None:
    limited = tuple(choose_recipes(asked(task.name, max_drop="1pt").question))
    assert limited == (*DEFAULT_RECIPES, "qat_int8")
    of_classifiers = tuple(choose_recipes(asked(CLASSIFICATION.name, max_drop="1pt").question))
    assert of_classifiers == (*DEFAULT_RECIPES, *HEAVIER_RECIPES)


def read(data: Path, task: str = DETECTION.name) -> Images:
    return present(read_images(asked(task, data=str(data)).question, lambda _: None))


def test_images_with_boxes_are_split_and_each_part_has_its_objects(tmp_path: Path) -> None:
    images = read(write_voc(tmp_path, photos(60, "cat", "dog")))
    assert images.classes == images.boxes.classes == ("cat", "dog")
    assert set(images.boxes.sizes) == {(64, 48)}
    resolved = replace(resolve_cards(asked(candidates=[CARD])), images=images)
    plan = resolved.plan(Candidates(resolved.cards, {CARD: None}, {}))
    assert (plan.workload.question.task, plan.workload.question.of_task) == (DETECTION.name, DETECTION)
    assert plan.workload.images == images.counts
    parts = [images.part(role) for role in (Role.TRAIN, Role.VALIDATION, Role.HOLDOUT)]
    assert sorted(index for part in parts for index in part.indices) == list(range(60))
    assert all(len(part.objects) == len(part.paths) > 5 for part in parts)
    assert overview_of(images).boxes["holdout"] == {"cat": len(parts[2].paths), "dog": len(parts[2].paths)}


def test_what_a_reader_of_boxes_may_not_expect_is_told_and_kept(tmp_path: Path) -> None:
    said: list[str] = []
    images = read_images(asked(data=str(write_without_dogs(tmp_path))).question, said.append)
    note = "The holdout part has no box of dog: no average precision there."
    assert note in said
    assert note in images.notes


@pytest.mark.parametrize("writer", ["voc", "coco", "yolo"])
def test_boxes_that_are_searched_for_classes_are_refused_with_the_task_to_add(tmp_path: Path, writer: str) -> None:
    refused = must_fail(UsageError, "", read, WRITERS[writer](tmp_path, photos(40, "cat", "dog")), CLASSIFICATION.name)
    assert refused.hint.startswith("write --task object-detection (the folder has boxes, ")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder.create(tmp_path, "left-out")
    run.append(replace(of_file(evaluation()), configuration=PLAN.configuration(EVALUATED, "float32", 1)))
    run.append(Evaluation(PLAN.configuration(EVALUATED, "float16", 1), Status.FAILED, reason="killed"))
    run.keep_answers(f"{UNTOUCHED}-{PLAN.configuration(UNTOUCHED, 'float16', 1).training}-float16", [0])
    record_unevaluated(run, PLAN, end_early(StopKind.MAX_TRIALS, "at --max-trials 1", 7).reason)
    return run


def test_every_card_is_evaluated_or_skipped_with_what_ended_the_search(run: RunFolder) -> None:
    rest = [e for e in run.evaluations() if e.configuration.card == UNTOUCHED]
    assert len(rest) == 4
    for one in rest:
        state = "not timed" if one.configuration.compression == "float16" else "not started"
        reason = f"{state}: stopped at --max-trials 1"
        assert (one.status, one.stage, one.reason, one.was_begun) == (Status.SKIPPED, StageName.STOP, reason, False)
    assert len([e for e in run.evaluations() if e.configuration.card == EVALUATED]) == 2
    before = run.evaluations()
    record_unevaluated(run, PLAN, end_early(StopKind.MAX_TRIALS, "at --max-trials 1", 7).reason)
    assert run.evaluations() == before


def test_a_run_that_goes_on_begins_them_and_tries_a_failure_again(run: RunFolder) -> None:
    (done,) = skip_ruled_out(run, PLAN, Rules(Limits()))
    assert done.configuration == PLAN.configuration(EVALUATED, "float32", 1)


def test_a_folder_without_images_is_refused_without_another_task(tmp_path: Path) -> None:
    refused = must_fail(UsageError, "", read, tmp_path, CLASSIFICATION.name)
    assert refused.hint
    assert "--task" not in refused.hint


def test_where_nothing_meets_the_budget_what_was_skipped_is_evaluated_for_the_price_of_relaxing_it(
    tmp_path: Path, warm_cache: Path, without_images: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert without_images.code == 3, without_images.err
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    limits = {"size_budget": "1MB", "budget": "1us", "out": str(tmp_path / "runs")}
    options = {"candidates": [SMALLEST], "compressions": FORMS.split(","), "threads": [1], "workers": 1, **limits}
    run = run_search(resolve(options), Progress()).run
    first = json.loads(run.evaluations_file.read_text().splitlines()[0])
    assert (first["status"], first["stage"], first["configuration"]["compression"]) == ("skipped", "plan", "float32")
    assert "more than the size budget 1.0 MB" in first["reason"]
    assert [e.status for e in run.evaluations()] == [Status.OK] * 2
