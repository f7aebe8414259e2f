"""A card fine-tuned in one call: from its weights to a classifier that LiteRT runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.build import build_model
from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.datasets.images import InputSpec
from advisor.measurement.accuracy import predict
from advisor.training.batches import Augmentation
from advisor.training.finetune.tuning import FINETUNING, Finetuning, epochs_done, tune
from tests.training import nets

KNOBS = Finetuning(trained=1.0, epochs=2, learning_rate=3e-4, batch=8, augmentation=Augmentation(1.0, 0.0, 0.0))
VALIDATION = (20, 21, 22, 23, 24, 25, 26, 27)


@pytest.fixture(scope="module")
def card() -> Card:
    """The smallest card, on images so small that it is trained in seconds."""
    return replace(load_catalogue()["mobilenet_v1_0.25_128"], input_size=32)


@pytest.fixture(scope="module")
def data(card: Card, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[int], Path]:
    from advisor.datasets.images import InputSpec

    folder = tmp_path_factory.mktemp("tuning")
    paths, labels = nets.stripes(folder / "pictures", 28)
    model, spec = build_model(card, None), InputSpec(32, card.preprocessing.mean, card.preprocessing.std)
    images = (spec.read(path)[None] for path in paths)
    rows = [np.asarray(model(image, training=False)["features"])[0] for image in images]
    np.save(folder / "features.npy", np.stack(rows).astype(np.float32))
    return paths, labels, folder / "features.npy"


@pytest.mark.slow
def test_the_file_answers_on_the_validation_part_as_the_result_says(
    card: Card, data: tuple[list[Path], list[int], Path], tmp_path: Path
) -> None:
    """The tests of the stage show the same through a child process."""
    paths, labels, features = data
    checkpoints, file = tmp_path / "checkpoints", tmp_path / "tuned.tflite"
    result = tune(card, None, [features], paths, labels, VALIDATION, KNOBS, checkpoints, file)
    assert len(result["history"]) == 2
    assert epochs_done(checkpoints, KNOBS) == (2, 2)
    json.dumps(result)
    unseen = [paths[place] for place in VALIDATION]
    answers = predict(file, unseen, InputSpec(32, card.preprocessing.mean, card.preprocessing.std)).argmax(axis=1)
    right = np.mean([answer == labels[place] for answer, place in zip(answers, VALIDATION, strict=True)])
    assert right == pytest.approx(result["validation_accuracy"], abs=1.01 / len(VALIDATION))


def test_every_recipe_has_its_knobs() -> None:
    assert set(FINETUNING) == {"finetune_cached", "finetune_top", "finetune_all"}
    assert FINETUNING["finetune_top"].trained < FINETUNING["finetune_all"].trained == 1.0


def test_before_the_first_epoch_nothing_is_done(tmp_path: Path) -> None:
    assert epochs_done(tmp_path, KNOBS) is None
    (tmp_path / "state.json").write_text("{")
    assert epochs_done(tmp_path, KNOBS) is None
