"""The facts of the tasks fit together; other packages may bring tasks."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.catalog import task_of
from advisor.core import TASKS, TrainingName, UsageError, list_choosable, recipe_of
from advisor.engine import resolve
from advisor.store import RunFolder
from advisor.tasks import TASKS as OWN, Task
from advisor.tasks._counting import COUNTING
from advisor.tasks._task import USUAL_TRAININGS, HeadOnMaps
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from advisor.tasks.segmentation import SEGMENTATION
from advisor.tflite import Metadata, read
from tests.builders import must_fail
from tests.tflite.graphs import foreign_detector, tiny_features

EVERY = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
TOY = Path(__file__).with_name("toy")


def test_a_task_is_found_by_its_name_and_by_its_file() -> None:
    assert {task.name: task for task in OWN} == TASKS
    assert task_of(read(foreign_detector())) == DETECTION.name
    assert task_of(read(tiny_features())) == CLASSIFICATION.name


@EVERY
def test_what_is_trained_by_default_can_be_chosen_and_so_can_a_head(task: Task) -> None:
    assert task.default
    assert TrainingName.HEAD in task.trainings
    assert set(task.default) <= set(task.trainings) <= set(list_choosable())


def test_classification_has_every_recipe_and_the_default_ones() -> None:
    assert (CLASSIFICATION.trainings, CLASSIFICATION.default) == (list_choosable(), USUAL_TRAININGS)


@pytest.mark.parametrize("task", [DETECTION, COUNTING, SEGMENTATION], ids=lambda task: task.name)
def test_all_layers_learn_by_default_where_that_was_measured(task: Task) -> None:
    assert task.trainings == (TrainingName.HEAD, TrainingName.FINETUNE_TOP, TrainingName.FINETUNE_ALL)
    tuned = {name for name in task.default if recipe_of(name).tunes_backbone}
    assert tuned == (set() if task is COUNTING else {TrainingName.FINETUNE_ALL})
    assert bool(tuned) == (task.gain is not None)


@pytest.mark.parametrize(("task", "epochs"), [(DETECTION, 20), (COUNTING, 14), (SEGMENTATION, 20)])
def test_of_all_but_counters_all_layers_learn_in_another_way_than_some(task: HeadOnMaps, epochs: int) -> None:
    some, every = (
        task.head.choose_hyperparameters(recipe_of(name).layers)
        for name in (TrainingName.FINETUNE_TOP, TrainingName.FINETUNE_ALL)
    )
    assert (some.epochs, some.batch_statistics) == (14, False)
    assert (every.epochs, every.batch_statistics) == (epochs, task is not COUNTING)


@pytest.mark.parametrize(
    ("task", "metric", "heading"),
    [(CLASSIFICATION, "top-1", "Top-1"), (DETECTION, "mAP@0.5", "mAP@0.5"), (COUNTING, "F1", "F1")],
)
def test_a_heading_begins_with_a_capital_unless_the_metric_has_capitals(task: Task, metric: str, heading: str) -> None:
    assert (task.metric, task.heading) == (metric, heading)


@pytest.mark.integration
def test_it_trains_judges_and_reports(tmp_path: Path, search_small: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    for count, level in enumerate(np.linspace(30, 220, 40)):
        folder = tmp_path / "photographs" / ("dark" if level < 125 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(rng.normal(level, 20, (64, 64, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{count}.png")
    search_small(tmp_path / "photographs", tmp_path / "runs", task="brightness")
    run = RunFolder((tmp_path / "runs" / "latest").resolve())
    found = {row.configuration.compression: row for row in run.evaluations()}
    assert set(found) == {"float32", "int8"}
    assert found["float32"].accuracy.value > 60
    assert run.read_json("recommendation.json")["task"] == "brightness"
    metadata = Metadata.read((run.path / found["float32"].artefact).read_bytes())
    assert (metadata.labels, metadata.description[:16]) == (("brightness",), "Brightness meter")
    assert "share within a tenth" in (run.path / "report.html").read_text()


def test_what_it_lacks_and_a_misspelt_name_are_refused_with_a_reason(installed_tasks: None, tmp_path: Path) -> None:
    brightness = TASKS["brightness"]
    must_fail(UsageError, "there is no bundle for brightness", brightness.shipping)
    must_fail(UsageError, "there are no checks for brightness", brightness.check, tmp_path, None, print)
    must_fail(UsageError, "did you mean 'brightness'", resolve, {"task": "brightnes"})
