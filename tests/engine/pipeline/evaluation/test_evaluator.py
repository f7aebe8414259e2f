"""From a configuration to its evaluation, over stages whose results are there already."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog import Catalogue
from advisor.compression import RECIPES
from advisor.core import (
    Configuration,
    Evaluation,
    HeadFacts,
    Limits,
    NewConditions,
    Provenance,
    Quantity,
    StageError,
    Status,
    Target,
    TrainingName,
)
from advisor.engine import Images, Question, Role, Stage, StageName, Workload
from advisor.engine._pipeline.evaluation.evaluator import Evaluator
from advisor.engine._pipeline.graph import ALWAYS
from advisor.engine._pipeline.materials import Artefact
from advisor.engine._pipeline.rule import RejectionRule, RuleNeeds, Rules
from advisor.engine._pipeline.stage import abort_stage
from advisor.engine._pipeline.stages.figures import ThreadTiming
from advisor.engine._pipeline.stages.head import TrainedHead
from advisor.engine._pipeline.walker import Walker, run_coroutine
from advisor.engine._rules import SCREEN_MARGIN, explain_needless, explain_slowness
from advisor.store import RunFolder
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from tests.engine.pipeline.boxed import boxed_images, save_found, two_classes
from tests.engine.pipeline.walking import materials
from tests.processes import PATIENCE_S

CARD = Catalogue.load()["mobilenet_v2_1.0_224"]
NAMES = ("float32", "int8", "mixed_int8")
MADE = {recipe.name: recipe for recipe in RECIPES}
HEAD_FACTS = HeadFacts("all_levels", 0.01, False, 0.9, 4)
EXPECTED = NewConditions(0.8, 0.6, 0.9, 0.05, 0.3, 3, 8)
MS = Quantity(10.0, "ms", Provenance.MEASURED)


class Prepared(Walker):
    """Gives results that are there; notes which stages were asked for."""

    def __init__(
        self, folder: Path, right: Mapping[str, int], screen_ms: float = 1.0, given: Images | None = None
    ) -> None:
        self.materials = materials(folder / "cache", given or two_classes(), weights={CARD.name: None})
        self.asked: list[str] = []
        self.failing: dict[str, Exception] = {}
        self._folder, self._right, self._screen_ms = folder, right, screen_ms
        self.timings: dict[str, ThreadTiming] = {}

    async def run(self, stage: Stage[Any]) -> Any:
        recipe = stage.scope.compression
        self.asked.append(f"{stage.name} {recipe}".strip())
        if stage.name in self.failing:
            raise abort_stage(self.failing[stage.name], stage.name, recipe)  # type: ignore[arg-type]
        if stage.name is StageName.SCREEN:
            return self._screen_ms
        if stage.name is StageName.SCORE:
            return self._probabilities(recipe)
        if stage.name is StageName.HEAD:
            return TrainedHead(self._folder / "head.npz", "", HEAD_FACTS)
        if stage.name is StageName.EXPECTATION:
            return EXPECTED
        if stage.name is StageName.TIMING:
            return {1: self.timings.get(recipe, ThreadTiming(MS, MS))}
        return self._artefact(recipe)

    def _probabilities(self, recipe: str) -> Path:
        """The first so many of the four validation images are answered rightly."""
        labels = np.array([0, 1, 0, 1])
        answers = np.where(np.arange(4) < self._right[recipe], labels, 1 - labels)
        np.save(self._folder / f"{recipe}.npy", np.eye(2, dtype=np.float32)[answers])
        return self._folder / f"{recipe}.npy"

    def _artefact(self, recipe: str) -> Artefact:
        path = self._folder / f"{recipe}.tflite"
        path.write_bytes(recipe.encode())
        return Artefact(path, recipe * 2, len(recipe), {"arena_bytes": 5})


class Detecting(Prepared):
    """Gives what detectors found: all boxes but those of the first validation images."""

    def __init__(self, folder: Path, right: Mapping[str, int]) -> None:
        super().__init__(folder, right, given=boxed_images())

    def _probabilities(self, recipe: str) -> Path:
        missed = range(4 - self._right[recipe])
        return save_found(self._folder / f"{recipe}.npz", boxed_images(), Role.VALIDATION, missed)


def evaluated(
    walker: Prepared, recipe: str, tmp_path: Path, limits: Limits | None = None, named: tuple[str, ...] = (),
    screening: bool = True, timed: bool = True, task: str = CLASSIFICATION.name,
) -> Evaluation:  # fmt: skip
    question = Question(task, limits=limits or Limits(), compressions=named)
    workload = Workload((TrainingName.HEAD,), NAMES, two_classes().counts, question)
    run = RunFolder.create(tmp_path / "runs", "run")
    recipes = {name: MADE[name] for name in NAMES}
    slow = RejectionRule(RuleNeeds.BACKBONE, StageName.SCREEN, partial(explain_slowness, 1))
    needless_form = RejectionRule(RuleNeeds.LIGHTER, StageName.COMPRESS, explain_needless)
    rules = Rules(question.limits, (needless_form, *([slow] if limits is not None and timed else [])))
    evaluator = Evaluator(walker, workload, {CARD.name: CARD}, recipes, rules, run, timed)
    evaluator.screening = screening
    configuration = Configuration(CARD.name, TrainingName.HEAD, recipe, Target("host", "runtime", "cpu", 1))
    return run_coroutine(evaluator.evaluate(configuration))


def test_the_figures_of_the_stages_become_one_evaluation(tmp_path: Path) -> None:
    walker = Prepared(tmp_path, {"float32": 4, "int8": 3})
    found = evaluated(walker, "int8", tmp_path)
    assert found.status is Status.OK
    assert (found.accuracy.value, found.accuracy.n) == (75.0, 4)
    assert found.drop.value == 25.0
    assert found.latency == MS
    assert found.size.value == len("int8")
    assert found.artefact == f"artifacts/{CARD.name}-head-int8.tflite"
    assert found.file_facts.arena_bytes == 5
    assert found.card_facts.macs == CARD.macs
    assert found.head == HEAD_FACTS
    assert found.expectation == EXPECTED
    assert found.new_conditions.value == pytest.approx(75.0 * EXPECTED.kept)
    assert walker.asked == [
        "compress int8", "expectation", "score int8", "score float32", "head", "head", "timing int8",
        "confidence int8",
    ]  # fmt: skip


def test_a_failed_stage_is_named_in_the_evaluation(tmp_path: Path) -> None:
    walker = Prepared(tmp_path, {})
    walker.failing[StageName.COMPRESS] = StageError("no such operator")
    found = evaluated(walker, "int8", tmp_path)
    assert (found.status, found.stage, found.reason) == (Status.FAILED, "compress", "no such operator")


def test_a_card_that_is_far_too_slow_is_not_trained(tmp_path: Path) -> None:
    walker = Prepared(tmp_path, {"float32": 4}, screen_ms=SCREEN_MARGIN * 50 + 1)
    found = evaluated(walker, "float32", tmp_path, Limits(latency_ms=50.0))
    assert (found.status, found.stage) == (Status.SKIPPED, "screen")
    assert "over 6 times the budget 50.0 ms" in found.reason
    assert walker.asked == ["screen"]


@pytest.mark.parametrize(("screening", "timed"), [(False, True), (True, False)])
def test_nothing_is_screened_if_that_is_off_or_no_device_is_here(tmp_path: Path, screening: bool, timed: bool) -> None:
    walker = Prepared(tmp_path, {"float32": 4}, screen_ms=1e6)
    found = evaluated(walker, "float32", tmp_path, Limits(latency_ms=50.0), screening=screening, timed=timed)
    assert found.status is Status.OK
    assert (found.latency is not None) == timed
    assert ("timing float32" in walker.asked) == timed


@pytest.mark.parametrize(
    ("int8", "named", "status"), [(4, (), Status.SKIPPED), (2, (), Status.OK), (None, ("mixed_int8",), Status.OK)]
)
def test_a_heavier_recipe_waits_for_lighter_ones_to_lose_too_much_unless_it_is_named(
    tmp_path: Path, int8: int | None, named: tuple[str, ...], status: Status
) -> None:
    walker = Prepared(tmp_path, {"float32": 4, "mixed_int8": 4} | ({} if int8 is None else {"int8": int8}))
    found = evaluated(walker, "mixed_int8", tmp_path, Limits(max_drop_points=1.0), named=named)
    assert (found.status, found.stage) == (status, "compress" if status is Status.SKIPPED else "")
    assert ("compress mixed_int8" in walker.asked, "compress int8" in walker.asked) == (status is Status.OK, not named)


@pytest.mark.parametrize(("points", "status"), [(90.0, Status.SKIPPED), (1.0, Status.OK)])
def test_a_heavier_recipe_waits_for_the_limit_of_another_metric(tmp_path: Path, points: float, status: Status) -> None:
    walker = Detecting(tmp_path, {"float32": 4, "int8": 3, "mixed_int8": 4})
    limits = Limits(max_metric_drops=(("map", points),))
    assert evaluated(walker, "mixed_int8", tmp_path, limits, task=DETECTION.name).status is status


def test_a_detector_has_precision_and_shares_but_no_head_and_no_new_conditions(tmp_path: Path) -> None:
    walker = Detecting(tmp_path, {"float32": 4, "int8": 3})
    found = evaluated(walker, "int8", tmp_path, task=DETECTION.name)
    assert found.status is Status.OK
    assert found.accuracy.value == pytest.approx(50 * (76 / 101 + 1))  # a cat of four is missed
    assert found.drop.value == pytest.approx(100 - found.accuracy.value, abs=1e-4)
    assert found.answers.file == f"answers/{CARD.name}-head-int8.npy"
    assert (found.head, found.expectation, found.new_conditions) == (None, None, None)
    assert walker.asked == ["head", "score int8", "compress int8", "score int8", "score float32", "timing int8"]


@pytest.mark.parametrize("form", ALWAYS)
def test_what_ships_is_trained_while_the_compared_form_that_it_gets_anyway_is_scored(tmp_path: Path, form: str) -> None:
    class Together(Detecting):
        """Ends the training that ships only when the compared one was asked for its answers."""

        async def run(self, stage: Stage[Any]) -> Any:
            if stage.name is StageName.HEAD:
                await asyncio.wait_for(scored.wait(), timeout=PATIENCE_S)
                return self._artefact("float32")
            if stage.name is StageName.SCORE and stage.scope.compression == form:
                scored.set()
            return await super().run(stage)

    scored = asyncio.Event()
    found = evaluated(Together(tmp_path, {"float32": 4, "int8": 3}), form, tmp_path, task=DETECTION.name)
    assert found.status is Status.OK
