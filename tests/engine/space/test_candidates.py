"""Images, cards and recipes of a question, by its task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.cards import OWN_DETECTOR, OWN_FILE
from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import UsageError
from advisor.core.tasks import DETECTION, IMAGE_CLASSIFICATION, OBJECT_DETECTION, TASKS
from advisor.core.training import HEAD, HEAD_SUBSET
from advisor.engine.pipeline.images import LARGE, Images, Role
from advisor.engine.question import Question, resolve
from advisor.engine.space.candidates import (
    DEFAULT_RECIPES,
    HEAVIER_RECIPES,
    READERS,
    Candidates,
    chosen_cards,
    chosen_recipes,
    make_plan,
    read_images,
    trainings_of,
)
from tests.datasets.boxes.writers import WRITERS, Photo, photos, write_table, write_voc
from tests.datasets.folders import make
from tests.engine.pipeline.boxed import boxed_images

CARD = "mobilenet_v2_1.0_224"


def asked(task: str = OBJECT_DETECTION, **options: Any) -> Question:
    return resolve({"task": task, "data": "boxes", **options}).question


def read(data: Path, task: str = OBJECT_DETECTION) -> Images:
    images = read_images(asked(task, data=str(data)), lambda _: None)
    assert images is not None
    return images


def test_every_task_has_a_reader() -> None:
    assert set(READERS) == set(TASKS)


def test_boxes_are_read_in_shares_of_their_upright_image(tmp_path: Path) -> None:
    made = photos(40, "dog", "cat")  # images of 64 by 48 pixels
    images = read(write_table(tmp_path, made))
    assert images.boxes is not None
    assert images.classes == images.boxes.classes == ("cat", "dog")
    assert set(images.boxes.sizes) == {(64, 48)}
    by_name = {
        image.path.stem: objects for image, objects in zip(images.dataset.images, images.boxes.objects, strict=True)
    }
    for photo in made:
        expected = [("cat", "dog").index(name) for name, *_ in photo.objects]
        assert [label for label, *_ in by_name[photo.name]] == expected
        for (_, *shares), (_, left, top, right, bottom) in zip(by_name[photo.name], photo.objects, strict=True):
            assert shares == pytest.approx([top / 48, left / 64, bottom / 48, right / 64])


def test_images_with_boxes_are_split_and_each_part_has_its_objects(tmp_path: Path) -> None:
    images = read(write_voc(tmp_path, photos(60, "cat", "dog")))
    parts = [images.part(role) for role in (Role.TRAIN, Role.VALIDATION, Role.HOLDOUT)]
    assert sorted(index for part in parts for index in part.indices) == list(range(60))
    assert all(len(part.objects) == len(part.paths) > 5 for part in parts)
    assert images.overview.boxes["holdout"] == {"cat": len(parts[2].paths), "dog": len(parts[2].paths)}


def test_what_a_reader_of_boxes_may_not_expect_is_told_and_kept(tmp_path: Path) -> None:
    parts = ("train",) * 20 + ("val",) * 6 + ("test",) * 6
    made = [
        Photo(photo.name, photo.objects if part == "train" else photo.objects[:1], part)
        for photo, part in zip(photos(32, "cat", "dog"), parts, strict=True)
    ]
    said: list[str] = []
    images = read_images(asked(data=str(write_table(tmp_path, made))), said.append)
    assert images is not None
    note = "The holdout part has no box of dog: no average precision there."
    assert note in said
    assert note in images.notes


def test_too_few_boxes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fewer than 8 images with a box of 'cat'"):
        read(write_table(tmp_path, photos(6, "cat")))


def test_images_with_classes_have_no_boxes(tmp_path: Path) -> None:
    images = read(make(tmp_path, cat=20, dog=20), IMAGE_CLASSIFICATION)
    assert (images.boxes, images.classes) == (None, ("cat", "dog"))


@pytest.mark.parametrize("writer", ["voc", "coco", "yolo"])
def test_boxes_that_are_searched_for_classes_are_refused_with_the_task_to_add(tmp_path: Path, writer: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(WRITERS[writer](tmp_path, photos(40, "cat", "dog")), IMAGE_CLASSIFICATION)
    assert refused.value.hint.endswith("add --task object-detection")


def test_a_folder_without_boxes_is_refused_with_its_own_hint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as refused:
        read(tmp_path / "empty", IMAGE_CLASSIFICATION)
    assert refused.value.hint
    assert "--task" not in refused.value.hint


def test_a_detector_has_its_own_input_and_the_macs_of_it() -> None:
    (card,) = chosen_cards(asked(candidates=[CARD]))
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
    cards = (("mine", OWN_FILE), ("cells", OWN_DETECTOR))
    entries = "".join(card.format(name=name, architecture=kind, zeros="0" * 64) for name, kind in cards)
    (tmp_path / "team.yaml").write_text(f"family: own\ncards:{entries}", encoding="utf-8")
    return tmp_path / "team.yaml"


@pytest.mark.parametrize(
    ("task", "name", "other"),
    [(OBJECT_DETECTION, "mine", IMAGE_CLASSIFICATION), (IMAGE_CLASSIFICATION, "cells", OBJECT_DETECTION)],
)
def test_a_file_for_another_task_is_refused_by_name(catalogue: Path, task: str, name: str, other: str) -> None:
    message = f"{name} is a file for {other}, and the search is for {task}"
    with pytest.raises(UsageError, match=message) as refused:
        chosen_cards(asked(task, candidates=[name], catalog=[str(catalogue)]))
    assert refused.value.hint == f"add --task {other}, or leave it out"


@pytest.mark.parametrize(
    ("task", "there", "gone"), [(OBJECT_DETECTION, "cells", "mine"), (IMAGE_CLASSIFICATION, "mine", "cells")]
)
def test_files_for_another_task_are_no_candidates(catalogue: Path, task: str, there: str, gone: str) -> None:
    cards = {card.name: card for card in chosen_cards(asked(task, catalog=[str(catalogue)]))}
    assert gone not in cards
    assert cards[there].input_size == 32


def test_all_cards_of_a_detector_have_one_input() -> None:
    cards = chosen_cards(asked())
    assert len(cards) > 10
    assert {card.input_size for card in cards} == {320}


def test_a_classifier_has_the_input_of_its_card() -> None:
    assert chosen_cards(asked(IMAGE_CLASSIFICATION, candidates=[CARD])) == (load_catalogue()[CARD],)


@pytest.mark.parametrize("recipe", HEAVIER_RECIPES)
def test_a_recipe_that_learns_from_labels_is_refused_for_a_detector_and_not_offered(recipe: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen_recipes(asked(compressions=["int8", recipe]))
    assert refused.value.message.startswith(f"--compressions: unknown '{recipe}'")
    assert "int8" in refused.value.hint.split(": ")[1].split(", ")
    assert not set(HEAVIER_RECIPES) & set(refused.value.hint.split(": ")[1].split(", "))
    assert recipe in chosen_recipes(asked(IMAGE_CLASSIFICATION, compressions=[recipe]))


def test_a_limit_of_the_drop_brings_heavier_recipes_to_classifiers_alone() -> None:
    assert tuple(chosen_recipes(asked(max_drop="1pt"))) == DEFAULT_RECIPES
    of_classifiers = tuple(chosen_recipes(asked(IMAGE_CLASSIFICATION, max_drop="1pt")))
    assert of_classifiers == (*DEFAULT_RECIPES, *HEAVIER_RECIPES)


def test_a_large_set_of_boxes_gets_no_first_look() -> None:
    images = boxed_images()
    large = replace(images, split=replace(images.split, train=tuple(range(LARGE + 1))))
    assert trainings_of(asked(), large) == (HEAD,)
    assert trainings_of(asked(IMAGE_CLASSIFICATION), large)[0] == HEAD_SUBSET


def test_the_plan_is_for_the_task() -> None:
    question = asked(candidates=[CARD])
    cards = chosen_cards(question)
    plan = make_plan(question, Candidates(cards, {CARD: None}, {}), chosen_recipes(question), boxed_images(), 2)
    assert (plan.task, plan.workload.task, plan.workload.of_task) == (OBJECT_DETECTION, OBJECT_DETECTION, DETECTION)
    assert (plan.images, plan.validation, plan.holdout) == (8, 4, 4)
