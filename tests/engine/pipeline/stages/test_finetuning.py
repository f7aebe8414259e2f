"""Fine-tuning as a stage of a search, on a small network and few pictures: real children, real files."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog import Catalogue
from advisor.core import TrainingName
from advisor.datasets import Survey
from advisor.datasets._split import draw_split
from advisor.engine import FloatModel, Images, Purpose, Question, Role, Scope, Stage, Workload, input_spec
from advisor.engine._pipeline.materials import TrainingBudget
from advisor.engine._pipeline.stage import RESULT
from advisor.engine._pipeline.stages import finetuning as stages
from advisor.isolation import ChildPool, Children, Trainers
from advisor.training import FINETUNING, Finetuning
from tests.engine.pipeline.walking import InThisProcess, materials, walk, walk_all
from tests.training import nets

pytestmark = pytest.mark.integration

CARD = replace(Catalogue.load()["squeezenet_1.1_224_onnx"], input_size=32)
KNOBS = Finetuning(trained=0.3, epochs=2, batch=8)
TRAINING = "finetune_top"
CACHED = FINETUNING[TrainingName.FINETUNE_CACHED]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    folder = tmp_path_factory.mktemp("pictures")
    for number, path in enumerate(nets.stripes(folder / "all", 40)[0]):
        (folder / "data" / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        path.rename(folder / "data" / f"class{number % 2}" / path.name)
    dataset = Survey.read(folder / "data").dataset
    return Images(dataset, draw_split(dataset, 0))


@pytest.fixture
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildPool]:
    with Trainers(tmp_path_factory.mktemp("log") / "log.txt") as pool:
        yield pool


@pytest.fixture
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "FINETUNING", {TRAINING: KNOBS})


def _tuned(
    images: Images, pool: Children, cache: Path, trials: int = 0, limit_s: float | None = None
) -> tuple[FloatModel, FloatModel]:
    """Return what was compared and what ships, with so many seconds for training."""
    workload = Workload((TrainingName.HEAD, TRAINING), ("float32",), images.counts, Question(tune_training=trials))
    budget = None if limit_s is None else TrainingBudget(limit_s)
    given = replace(materials(cache, images, weights={CARD.name: None}), budget_training=lambda *_: budget)
    both = [stages.finetune_card(CARD, TRAINING, purpose, workload) for purpose in (Purpose.COMPARE, Purpose.SHIP)]
    compared, ships = walk_all(both, given, pool)
    return compared, ships


def _stages(images: Images) -> list[Stage[FloatModel]]:
    workload = Workload((TrainingName.HEAD, TRAINING), ("float32",), images.counts)
    return [stages.finetune_card(CARD, TRAINING, purpose, workload) for purpose in Purpose]


@pytest.fixture(scope="module")
def made(images: Images, tmp_path_factory: pytest.TempPathFactory) -> tuple[FloatModel, FloatModel]:
    """The network that was compared, and the one that ships, trained in this process; the slow tests have children."""
    folder = tmp_path_factory.mktemp("finetuned")
    with pytest.MonkeyPatch.context() as patch, nets.uncompiled_steps():
        patch.setattr(stages, "FINETUNING", {TRAINING: KNOBS})
        found = _tuned(images, InThisProcess(), folder / "cache")
    assert not list(folder.glob("**/*.checkpoints"))
    return found


def _told(model: FloatModel) -> dict[str, Any]:
    return json.loads(model.path.with_name(RESULT).read_text())


@pytest.mark.slow
def test_learning_from_all_has_no_limit(images: Images, training: ChildPool, tmp_path: Path, few_epochs: None) -> None:
    compared, _, learns = _stages(images)
    given = materials(tmp_path, images, weights={CARD.name: None})
    before = walk(compared, given, training)
    with Trainers(tmp_path / "log.txt") as another_search:
        after = walk(learns, replace(given, budget_training=lambda *_: TrainingBudget(0.0)), another_search)
    told = _told(after)
    assert (len(told["history"]), told["out_of_time"]) == (KNOBS.going_on().epochs, False)
    assert after.sha256 != before.sha256


def test_a_network_for_all_images_follows_the_compared_one_and_learns_from_some(images: Images, tmp_path: Path) -> None:
    compared, ships, learns = _stages(images)
    assert compared in learns.after
    assert ships not in learns.after
    large = replace(images, tuned_images=16)
    for stage, role in zip(_stages(large), (Role.TUNED, Role.TUNED, Role.ALL), strict=True):
        assert stage.reads(materials(tmp_path, large)).paths == large.part(role).paths
    assert _stages(large)[0].cost_s < _stages(images)[0].cost_s


def test_what_ships_goes_on_from_what_was_compared(images: Images, made: tuple[FloatModel, FloatModel]) -> None:
    from advisor.measurement import predict

    compared, ships = made
    assert compared.sha256 != ships.sha256
    told = _told(compared)
    assert len(told["history"]) == KNOBS.epochs
    assert len(_told(ships)["history"]) == KNOBS.going_on().epochs
    assert not told["levels"], "levels do not gain clearly on so few images"
    validation = images.part(Role.VALIDATION)
    answers = [predict(form.path, validation.paths, input_spec(CARD)) for form in (compared, ships)]
    right = np.mean(answers[0].argmax(axis=1) == np.array(validation.labels))
    assert right == pytest.approx(told["validation_accuracy"], abs=1.01 / len(validation.labels))
    assert answers[0].shape == answers[1].shape
    assert np.abs(answers[0] - answers[1]).max() < 0.5, "a few epochs more change little"


@pytest.mark.parametrize(("best", "more"), [(0.71, 0.0), (0.9, KNOBS.more_epochs)])
def test_what_fine_tuning_clearly_harmed_is_not_trained_further(tmp_path: Path, best: float, more: float) -> None:
    (tmp_path / RESULT).write_text(json.dumps({"history": [{"validation_accuracy": best}], "start_accuracy": 0.91}))
    assert stages._plan_hyperparameters(KNOBS, FloatModel(tmp_path / "x", ""), 187, None).more_epochs == more


@pytest.mark.parametrize(("share", "layers"), [(1.0, 0.61), (0.9, 0.5), (0.7, 0.35), (0.3, 0.2)])
def test_in_part_of_its_time_fewer_layers_train_also_of_what_ships(tmp_path: Path, share: float, layers: float) -> None:
    scope = Scope(CARD.name, TrainingName.FINETUNE_CACHED, purpose=Purpose.COMPARE)
    given = replace(materials(tmp_path), budget_training=lambda *_: TrainingBudget(100.0, share))
    fitted, time = stages._fit_to_limit(CACHED, None, given, scope)
    assert (fitted.trained, time.fitted) == (layers, share < 1.0)
    (tmp_path / RESULT).write_text(json.dumps({"trained": layers, "shortened": time.fitted}))
    ships = stages._fit_to_limit(CACHED, FloatModel(tmp_path / "x", ""), given, scope)
    assert (ships[0].trained, ships[1].fitted) == (layers, share < 1.0)


@pytest.mark.slow
def test_a_limited_training_is_continued(images: Images, training: ChildPool, tmp_path: Path, few_epochs: None) -> None:
    at_limit = _tuned(images, training, tmp_path, limit_s=0.0)
    assert at_limit[0].sha256 == at_limit[1].sha256, "what was compared ships"
    for form in at_limit:
        result = json.loads((form.path.parent / "result.json").read_text())
        assert form.path.stat().st_size > 0
        assert (result["out_of_time"], result["history"]) == (True, [])
    assert not list(tmp_path.glob(f"artifacts/{TRAINING}-2/*/result.json")), "the whole training is not there yet"
    with Trainers(tmp_path / "log.txt") as another_search:
        whole = _tuned(images, another_search, tmp_path)
    assert all(_told(form)["history"] and not _told(form)["out_of_time"] for form in whole)
    assert not list(tmp_path.glob("**/*.checkpoints"))


@pytest.mark.slow
def test_a_study_trains_as_often_as_it_may_and_keeps_the_best(
    images: Images, training: ChildPool, tmp_path: Path, few_epochs: None, monkeypatch: Any
) -> None:
    from advisor.training._finetune import hyperparameters as trials

    monkeypatch.setattr(trials, "EPOCHS", (1, 2))
    compared, ships = _tuned(images, training, tmp_path, trials=2)
    results = [json.loads(path.read_text()) for path in tmp_path.glob(f"{TRAINING}-2/*/result.json")]
    assert len(results) == 3, "two trials, and what ships"
    best = max(row["validation_accuracy"] for row in results)
    assert json.loads((compared.path.parent / "result.json").read_text())["validation_accuracy"] == best
    assert ships.path.exists()
