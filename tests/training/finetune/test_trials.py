"""A study turns the hyperparameters of a fine-tuning.

A card fine-tuned in one call: from its weights to a classifier that LiteRT runs. The state of a fine-tuning is read
whole, or counts as missing.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.convert import build_model
from advisor.datasets.images import InputSpec
from advisor.measurement.accuracy import predict
from advisor.training.features import Augmentation
from advisor.training.finetune import TuningImages, epochs_done, tune
from advisor.training.finetune.finetune import STATE, FinetuneProgress, read_progress
from advisor.training.finetune.hyperparameters import EPOCHS, FINETUNING, LEARNING_RATE, SPACE, Finetuning, Trials
from tests.training import nets

FINETUNE_CACHED, FINETUNE_TOP, FINETUNE_ALL = (FINETUNING[f"finetune_{part}"] for part in ("cached", "top", "all"))


def _asked(count: int, seed: int = 0, base: Finetuning = FINETUNE_TOP) -> list[Finetuning]:
    """Ask and tell: what learns faster is better."""
    trials, asked = Trials(base, seed), []
    for _ in range(count):
        asked.append(trials.ask())
        trials.tell(asked[-1], asked[-1].learning_rate)
    assert trials.best == max(asked, key=lambda hyperparameters: hyperparameters.learning_rate)
    return asked


def test_the_recipes_own_knobs_come_first() -> None:
    assert _asked(1)[0] == FINETUNE_TOP
    assert _asked(1, base=FINETUNE_ALL)[0] == FINETUNE_ALL


def test_every_knob_turns_within_its_span() -> None:
    asked = _asked(12)
    for hyperparameters in asked:
        changes = hyperparameters.augmentation
        spans = [(hyperparameters.learning_rate, LEARNING_RATE), (hyperparameters.epochs, EPOCHS)]
        spans += [(getattr(hyperparameters, name), SPACE[name]) for name in ("trained", "shrink", "l2_sp")]
        spans += [(getattr(changes, name), SPACE[name]) for name in ("crop", "mixup", "turn")]
        for value, span in spans:
            assert span[0] <= value <= span[1]
    assert len({hyperparameters.learning_rate for hyperparameters in asked}) == 12
    assert len({hyperparameters.trained for hyperparameters in asked}) == 12
    assert len({hyperparameters.shrink for hyperparameters in asked}) == 12


def test_all_layers_stay_all_layers() -> None:
    assert {hyperparameters.trained for hyperparameters in _asked(6, base=FINETUNE_ALL)} == {1.0}


def test_a_recipe_on_cached_maps_keeps_its_layers_and_begins_with_its_own_knobs() -> None:
    asked = _asked(6, base=FINETUNE_CACHED)
    assert asked[0] == FINETUNE_CACHED
    assert {(one.trained, one.shrink) for one in asked} == {(FINETUNE_CACHED.trained, FINETUNE_CACHED.shrink)}
    assert len({one.epochs for one in asked}) > 1


def test_what_is_no_knob_stays() -> None:
    base = replace(FINETUNE_TOP, capture=0.5, seed=7)
    assert {
        (hyperparameters.capture, hyperparameters.seed, hyperparameters.batch)
        for hyperparameters in _asked(5, base=base)
    } == {(0.5, 7, base.batch)}


def test_equal_seeds_ask_for_equal_knobs() -> None:
    assert _asked(8) == _asked(8)
    assert _asked(8) != _asked(8, seed=1)


def test_it_learns_where_to_ask() -> None:
    asked = [hyperparameters.learning_rate for hyperparameters in _asked(24)]
    assert sum(asked[14:]) / 10 > sum(asked[1:5]) / 4


def test_of_equals_the_first_is_best() -> None:
    trials = Trials(FINETUNE_TOP, 0)
    first = trials.ask()
    trials.tell(first, 0.9)
    trials.tell(trials.ask(), 0.9)
    assert trials.best == first


KNOBS = Finetuning(trained=1.0, epochs=2, learning_rate=3e-4, batch=8, augmentation=Augmentation(1.0, 0.0, 0.0))
VALIDATION = (20, 21, 22, 23, 24, 25, 26, 27)


@pytest.fixture(scope="module")
def card() -> Card:
    """The smallest card, on images so small that it is trained in seconds."""
    return replace(load_catalogue()["mobilenet_v1_0.25_128"], input_size=32)


@pytest.fixture(scope="module")
def data(card: Card, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[int], Path]:
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
    result = tune(card, None, TuningImages([features], paths, labels, VALIDATION), KNOBS, checkpoints, file)
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


DONE = FinetuneProgress({"epochs": 5, "augmentation": {"zoom": 0.1}}, ({"loss": 0.5, "seconds": 2.0},), 0, 0.9, 0.8)


def test_a_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / STATE).write_text(json.dumps(asdict(DONE)))
    assert read_progress(tmp_path) == DONE


@pytest.mark.parametrize(
    "change",
    [
        {"history": None}, {"history": [1]}, {"history": [{"loss": "x"}]}, {"best": "x"}, {"best_epoch": 0.5},
        {"more": 1}, "", "{", "[]", "\0", "[" * 100_000,
    ],
)  # fmt: skip
def test_a_state_of_wrong_types_or_damaged_counts_as_missing(tmp_path: Path, change: dict[str, object] | str) -> None:
    text = change if isinstance(change, str) else json.dumps({**asdict(DONE), **change})
    (tmp_path / STATE).write_text(text)
    assert read_progress(tmp_path) is None
