"""A study turns the hyperparameters of a fine-tuning. Its state is read whole, or counts as missing."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from advisor.training import FINETUNING, Finetuning, Trials
from advisor.training._finetune.finetune import STATE, FinetuneProgress, read_progress
from advisor.training._finetune.hyperparameters import EPOCHS, LEARNING_RATE, SPACE
from tests.tables import with_cases

FINETUNE_CACHED, FINETUNE_TOP, FINETUNE_ALL = (FINETUNING[f"finetune_{part}"] for part in ("cached", "top", "all"))
DONE = FinetuneProgress({"epochs": 5, "augmentation": {"zoom": 0.1}}, ({"loss": 0.5, "seconds": 2.0},), 0, 0.9, 0.8)


def _asked(count: int, seed: int = 0, base: Finetuning = FINETUNE_TOP) -> list[Finetuning]:
    """Ask and tell: what learns faster is better."""
    trials, asked = Trials(base, seed), []
    for _ in range(count):
        asked.append(trials.ask())
        trials.tell(asked[-1], asked[-1].learning_rate)
    assert trials.best == max(asked, key=lambda hyperparameters: hyperparameters.learning_rate)
    return asked


def test_the_recipes_own_knobs_come_first_and_what_is_no_knob_stays() -> None:
    assert _asked(1)[0] == FINETUNE_TOP
    assert _asked(1, base=FINETUNE_ALL)[0] == FINETUNE_ALL
    base = replace(FINETUNE_TOP, capture=0.5, seed=7)
    assert {(one.capture, one.seed, one.batch) for one in _asked(5, base=base)} == {(0.5, 7, base.batch)}


def test_every_knob_turns_within_its_span() -> None:
    asked = _asked(12)
    for hyperparameters in asked:
        changes = hyperparameters.augmentation
        spans = [(hyperparameters.learning_rate, LEARNING_RATE), (hyperparameters.epochs, EPOCHS)]
        spans += [(getattr(hyperparameters, name), SPACE[name]) for name in ("trained", "shrink", "l2_sp")]
        spans += [(getattr(changes, name), SPACE[name]) for name in ("crop", "mixup", "turn")]
        for value, span in spans:
            assert span[0] <= value <= span[1]
    for name in ("learning_rate", "trained", "shrink"):
        assert len({getattr(hyperparameters, name) for hyperparameters in asked}) == 12


def test_all_layers_stay_all_layers_and_a_recipe_on_cached_maps_keeps_its_own() -> None:
    assert {hyperparameters.trained for hyperparameters in _asked(6, base=FINETUNE_ALL)} == {1.0}
    asked = _asked(6, base=FINETUNE_CACHED)
    assert asked[0] == FINETUNE_CACHED
    assert {(one.trained, one.shrink) for one in asked} == {(FINETUNE_CACHED.trained, FINETUNE_CACHED.shrink)}
    assert len({one.epochs for one in asked}) > 1


@pytest.mark.parametrize(("images", "epochs"), [(10, 24), (200, 18), (400, 10), (639, 6), (2000, 6), (0, 24)])
def test_few_images_get_more_epochs_of_the_cached_recipe(images: int, epochs: int) -> None:
    assert FINETUNE_CACHED.for_images(images) == replace(FINETUNE_CACHED, epochs=epochs, patience=epochs)
    assert FINETUNE_TOP.for_images(images) == FINETUNE_TOP


def test_less_time_means_fewer_layers_for_more_epochs_and_never_more_seconds() -> None:
    asked = [FINETUNE_CACHED.shorten_to(share) for share in (1.0, 0.9, 0.7, 0.3)]
    assert asked[0] == FINETUNE_CACHED
    assert [one.trained for one in asked[1:]] == [0.5, 0.35, 0.2]
    assert {one.epochs for one in asked[1:]} == {3 * FINETUNE_CACHED.epochs}
    seconds = [FINETUNE_CACHED.share_of_seconds(one.trained, FINETUNE_CACHED.epochs) for one in asked]
    assert seconds[0] == 1.0
    assert seconds == sorted(seconds, reverse=True)
    assert FINETUNE_TOP.shorten_to(0.3) == FINETUNE_TOP


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


def test_a_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / STATE).write_text(json.dumps(asdict(DONE)))
    assert read_progress(tmp_path) == DONE


@with_cases
def test_a_state_of_wrong_types_or_damaged_counts_as_missing(tmp_path: Path, change: dict[str, object] | str) -> None:
    text = change if isinstance(change, str) else json.dumps({**asdict(DONE), **change})
    (tmp_path / STATE).write_text(text)
    assert read_progress(tmp_path) is None
    (tmp_path / STATE).write_text("[" * 100_000)
    assert read_progress(tmp_path) is None
