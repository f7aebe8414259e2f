"""Images, cards and recipes of a question, by its task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import UsageError
from advisor.core.training import HEAD, HEAD_SUBSET
from advisor.engine.pipeline.images import LARGE, Role
from advisor.engine.question import Request, resolve
from advisor.engine.space.candidates import DEFAULT_RECIPES, HEAVIER_RECIPES, Candidates, chosen_recipes
from advisor.engine.space.resolved import resolve_cards
from advisor.tasks import CLASSIFICATION, DETECTION
from tests.engine.pipeline.boxed import boxed_images

CARD = "mobilenet_v2_1.0_224"


def asked(task: str = DETECTION.name, **options: Any) -> Request:
    return resolve({"task": task, "data": "boxes", **options})


def test_a_detector_has_its_own_input_and_the_macs_of_it() -> None:
    (card,) = resolve_cards(asked(candidates=[CARD])).cards
    plain = load_catalogue()[CARD]
    assert card.input_size == DETECTION.side == 320
    assert card.macs == pytest.approx(plain.macs * (320 / 224) ** 2, abs=1)
    assert replace(card, input_size=plain.input_size, macs=plain.macs) == plain


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    """A catalogue with a classifier and a detector of the user's own."""
    card = """
  - name: {name}
    input_size: 32
    preprocessing: {{mean: [0.0, 0.0, 0.0], std: [1.0, 1.0, 1.0]}}
    params: 600
    macs: 9000
    architecture: {architecture}
    licence: MIT
    paper: not stated
    weights: [{{kind: file, format: tflite, port: whole, file: {{path: {name}.tflite, sha256: "{zeros}"}}}}]
"""
    cards = (("mine", "tflite_file"), ("cells", "tflite_detector"))
    entries = "".join(card.format(name=name, architecture=kind, zeros="0" * 64) for name, kind in cards)
    (tmp_path / "team.yaml").write_text(f"family: own\ncards:{entries}", encoding="utf-8")
    return tmp_path / "team.yaml"


@pytest.mark.parametrize(
    ("task", "name", "other"),
    [(DETECTION.name, "mine", CLASSIFICATION.name), (CLASSIFICATION.name, "cells", DETECTION.name)],
)
def test_a_file_for_another_task_is_refused_by_name(catalogue: Path, task: str, name: str, other: str) -> None:
    message = f"{name} is a file for {other}, and the search is for {task}"
    with pytest.raises(UsageError, match=message) as refused:
        resolve_cards(asked(task, candidates=[name], catalog=[str(catalogue)]))
    assert refused.value.hint == f"add --task {other}, or leave it out"


@pytest.mark.parametrize(
    ("task", "there", "gone"), [(DETECTION.name, "cells", "mine"), (CLASSIFICATION.name, "mine", "cells")]
)
def test_files_for_another_task_are_no_candidates(catalogue: Path, task: str, there: str, gone: str) -> None:
    cards = {card.name: card for card in resolve_cards(asked(task, catalog=[str(catalogue)])).cards}
    assert gone not in cards
    assert cards[there].input_size == 32


def test_all_cards_of_a_detector_have_one_input() -> None:
    cards = resolve_cards(asked()).cards
    assert len(cards) > 10
    assert {card.input_size for card in cards} == {320}


def test_cards_that_cannot_fit_into_the_flash_are_left_out_unless_named() -> None:
    fitting = {card.name for card in resolve_cards(asked(CLASSIFICATION.name, device="stm32h743")).cards}
    assert "mobilenet_v1_0.25_224" in fitting
    assert not any(name.startswith(("resnet", "inception", "densenet")) for name in fitting)
    assert len(resolve_cards(asked(CLASSIFICATION.name, device="host,stm32h743")).cards) > len(fitting)
    assert resolve_cards(asked(CLASSIFICATION.name, device="stm32h743", candidates=["resnet_50_224"])).cards


def test_a_classifier_has_the_input_of_its_card() -> None:
    assert resolve_cards(asked(CLASSIFICATION.name, candidates=[CARD])).cards == (load_catalogue()[CARD],)


@pytest.mark.parametrize("recipe", HEAVIER_RECIPES)
def test_a_recipe_that_learns_from_labels_is_refused_for_a_detector_and_not_offered(recipe: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen_recipes(asked(compressions=["int8", recipe]).question)
    assert refused.value.message.startswith(f"--compressions: unknown '{recipe}'")
    assert "int8" in refused.value.hint.split(": ")[1].split(", ")
    assert not set(HEAVIER_RECIPES) & set(refused.value.hint.split(": ")[1].split(", "))
    assert recipe in chosen_recipes(asked(CLASSIFICATION.name, compressions=[recipe]).question)


def test_a_limit_of_the_drop_brings_heavier_recipes_to_classifiers_alone() -> None:
    assert tuple(chosen_recipes(asked(max_drop="1pt").question)) == DEFAULT_RECIPES
    of_classifiers = tuple(chosen_recipes(asked(CLASSIFICATION.name, max_drop="1pt").question))
    assert of_classifiers == (*DEFAULT_RECIPES, *HEAVIER_RECIPES)


def test_a_large_set_of_boxes_gets_no_first_look() -> None:
    images = boxed_images()
    large = replace(images, split=replace(images.split, train=tuple(range(LARGE + 1))))
    assert replace(resolve_cards(asked()), images=large).trainings == (HEAD,)
    assert replace(resolve_cards(asked(CLASSIFICATION.name)), images=large).trainings[0] == HEAD_SUBSET


def test_the_plan_is_for_the_task() -> None:
    resolved = replace(resolve_cards(asked(candidates=[CARD])), images=boxed_images())
    plan = resolved.plan(Candidates(resolved.cards, {CARD: None}, {}))
    assert (plan.workload.question.task, plan.workload.question.of_task) == (DETECTION.name, DETECTION)
    assert (plan.images, plan.workload.images[Role.VALIDATION], plan.holdout) == (8, 4, 4)
