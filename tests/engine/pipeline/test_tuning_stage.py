"""Fine-tuning as a stage of a search, on a small network and few pictures: real children, real files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog.build import build_model
from advisor.catalog.catalogue import load_catalogue
from advisor.core.training import HEAD
from advisor.datasets.split import split
from advisor.datasets.survey import survey
from advisor.engine.execution.machine import Machine
from advisor.engine.pipeline.context import Context, Images, Purpose, view_of
from advisor.engine.pipeline.stages import finetune
from advisor.engine.pipeline.stages.backbone import Backbones
from advisor.engine.pipeline.stages.finetune import Tuning
from advisor.engine.pipeline.stages.runner import Form, StageRunner
from advisor.engine.question import Question
from advisor.isolation import ChildPool
from advisor.isolation.pools import trainers
from advisor.store import ArtifactCache
from advisor.store.hashing import sha256_file
from advisor.training.finetune.hyperparameters import Finetuning
from tests.training import nets

CARD = replace(load_catalogue()["mobilenet_v1_0.25_128"], input_size=32)
KNOBS = Finetuning(trained=1.0, epochs=2, batch=8)
TRAINING = "finetune_top"


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The card's backbone with fixed-seed random weights, as a file of all levels."""
    import keras

    from advisor.tflite.levels import with_levels
    from advisor.training.finetune.to_tflite import convert

    path = tmp_path_factory.mktemp("backbone") / "backbone.tflite"
    model = build_model(CARD, None)
    path.write_bytes(with_levels(convert(keras.Model(model.inputs[0], model.output["features"]))))
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    folder = tmp_path_factory.mktemp("pictures")
    for number, path in enumerate(nets.stripes(folder / "all", 60)[0]):
        (folder / "data" / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        path.rename(folder / "data" / f"class{number % 2}" / path.name)
    dataset = survey(folder / "data").dataset
    return Images(dataset, split(dataset, 0))


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildPool]:
    with trainers(tmp_path_factory.mktemp("log") / "log.txt") as pool:
        yield pool


@pytest.fixture
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "FINETUNING", {TRAINING: KNOBS})


class _Cut(Backbones):
    """Has its backbone at once."""

    def __init__(self, keeper: StageRunner, path: Path) -> None:
        super().__init__(keeper, {CARD.name: None})
        self._path = path

    async def backbone(self, card: Any) -> Form:
        return Form(self._path, sha256_file(self._path))


def _tuned(backbone: Path, images: Images, pool: ChildPool, cache: Path, trials: int = 0) -> tuple[Form, Form]:
    """Return what was compared and what ships."""

    def quiet(*_: str) -> None:
        pass

    async def both(light: ChildPool) -> tuple[Form, Form]:
        question = Question(data=Path("-"), trainings=(HEAD, TRAINING), tune_training=trials)
        context = Context(question, images, ArtifactCache(cache), Machine(1), pool, light, quiet, trainers=pool)
        keeper = StageRunner(context, {CARD.name: 0})
        tuning = Tuning(keeper, _Cut(keeper, backbone))
        compared = await tuning.tuned(CARD, TRAINING, images, Purpose.COMPARE)
        return compared, await tuning.tuned(CARD, TRAINING, images, Purpose.SHIP)

    # In a thread of its own: a browser's driver may have left a running loop in this one.
    with ChildPool(None) as light, ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, both(light)).result()


def test_what_ships_goes_on_from_what_was_compared(
    backbone: Path, images: Images, training: ChildPool, tmp_path: Path, few_epochs: None
) -> None:
    from advisor.measurement.accuracy.inference import predict

    compared, ships = _tuned(backbone, images, training, tmp_path)
    assert compared.sha256 != ships.sha256
    told = json.loads((compared.path.parent / "result.json").read_text())
    more = json.loads((ships.path.parent / "result.json").read_text())
    assert len(told["history"]) == KNOBS.epochs
    assert len(more["history"]) == KNOBS.going_on().epochs
    assert told["levels"]
    answers = [predict(form.path, images.validation.paths, view_of(CARD)) for form in (compared, ships)]
    right = np.mean(answers[0].argmax(axis=1) == np.array(images.validation.labels))
    assert right == pytest.approx(told["validation_accuracy"], abs=1.01 / len(images.validation.labels))
    assert answers[0].shape == answers[1].shape
    assert np.abs(answers[0] - answers[1]).max() < 0.5, "a few epochs more change little"
    assert not list(tmp_path.glob("**/*.checkpoints"))


def test_a_study_trains_as_often_as_it_may_and_keeps_the_best(
    backbone: Path, images: Images, training: ChildPool, tmp_path: Path, few_epochs: None, monkeypatch: Any
) -> None:
    from advisor.training.finetune import trials

    monkeypatch.setattr(trials, "EPOCHS", (1, 3))
    compared, ships = _tuned(backbone, images, training, tmp_path, trials=3)
    results = [json.loads(path.read_text()) for path in tmp_path.glob(f"{TRAINING}-2/*/result.json")]
    assert len(results) == 4, "three trials, and what ships"
    best = max(row["validation_accuracy"] for row in results)
    assert json.loads((compared.path.parent / "result.json").read_text())["validation_accuracy"] == best
    assert ships.path.exists()
