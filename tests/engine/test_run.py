"""The parts of a search's run: refusals, cores by card, the answer so far, and a new training recipe as one object."""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from advisor.catalog import Catalogue
from advisor.cli._options import list_choices
from advisor.core import TrainingName, UsageError, _training as training, units
from advisor.core._training_recipe import TrainingRecipe
from advisor.engine import Machine, Role, _answer_so_far as module, _preview as preview, _search_space, resolve
from advisor.engine._answer_so_far import answering
from advisor.engine._decide import Answer
from advisor.engine._preparation import OutOfTime
from advisor.engine._progress import Progress
from advisor.engine._run import _was_disturbed, run_search
from advisor.engine._search_space import refuse_too_short
from advisor.engine._space.plan import Plan
from advisor.engine._space.resolving import resolve_parts
from advisor.store import RunFolder
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from tests.builders import RUNTIME, evaluation, must_fail, of_file, present
from tests.engine.plans import planned
from tests.processes import PATIENCE_S, wait_until
from tests.run_folders import write_run

LIGHT = TrainingRecipe("light", "a second head", over=TrainingName.HEAD, gain=0.2, spread=0.05, points=1.5)
HEAVY = TrainingRecipe(
    "heavy", "adapters", layers=0.3, over=TrainingName.HEAD, gain=0.2, spread=0.05, points=1.5, step=2.0
)
CARD = "mobilenet_v2_1.0_224"


def test_limit_and_costs_in_a_tenth_of_a_core_are_ten_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the cache of this machine has would cost nothing.
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    seconds, costs = [], []
    for part in (1.0, 0.1):
        monkeypatch.setattr(_search_space, "part_of_a_core", lambda part=part: part)
        costs.append(preview.preview(resolve({"candidates": [CARD]})).price_s)
        with pytest.raises(UsageError) as refused:
            refuse_too_short(resolve_parts(resolve({"time_limit": "0.01s"}), lambda _: None))
        seconds.append(units.parse_seconds(present(re.search(r"--time-limit (\w+);", refused.value.hint))[1], ""))
    assert seconds[1] == pytest.approx(10 * seconds[0], abs=11)
    assert costs[1] == pytest.approx(10 * costs[0])


def test_images_that_take_the_limit_are_no_late_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = write_run(tmp_path)
    monkeypatch.setattr("advisor.engine._run.find_end_of_preparation", lambda *_: 0.0)
    monkeypatch.setattr("advisor.engine._run.measure_slowdown", lambda _: 1.0)
    with pytest.raises(OutOfTime, match="the time limit of 100s ended before the first job") as raised:
        run_search(resolve({"candidates": [CARD], "time_limit": "100s", "out": str(tmp_path)}), Progress())
    assert "advisor search --resume" in raised.value.hint
    assert (tmp_path / "latest").resolve() == earlier.path, "this run has no result"


def test_an_interrupt_while_the_question_is_read_says_that_no_search_began(monkeypatch: pytest.MonkeyPatch) -> None:
    display = Mock()
    monkeypatch.setattr("advisor.engine._run.resolve_question", Mock(side_effect=KeyboardInterrupt))
    must_fail(KeyboardInterrupt, "", run_search, resolve({}), Progress(display))
    display.tell.assert_called_once_with("interrupted before the search began: type the same command to begin again")


def test_a_run_is_named_for_its_images_and_its_budget(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    assert resolve({"data": str(tmp_path / "photos"), "budget": "50ms"}).run_name == "photos-50ms"
    assert resolve({}).run_name == "image-classification"


def test_a_machine_was_busy_where_most_timings_say_so() -> None:
    quiet, busy = evaluation(), replace(evaluation(threads=2), contended=True)
    assert not _was_disturbed([quiet, busy])
    assert _was_disturbed([quiet, busy, replace(evaluation(threads=4), contended=True)])
    assert not _was_disturbed([quiet, replace(busy, latency=None), replace(busy, latency=None)])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(module, "LOOK_S", 0.005)
    return write_run(tmp_path)


def during(run: RunFolder, answer: Answer, work: Callable[[Machine], Coroutine[Any, Any, None]]) -> None:
    """Do the work of a search in a loop of its own, with answers beside it."""
    machine = Machine(1)

    async def search() -> None:
        async with answering(run, answer, machine):
            await asyncio.wait_for(work(machine), timeout=PATIENCE_S)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, search()).result()


def test_there_is_one_at_once_and_one_for_each_change_but_none_during_a_measurement(run: RunFolder) -> None:
    seen: list[int] = []

    async def work(machine: Machine) -> None:
        await wait_until(lambda: len(seen) == 1)
        async with machine.alone():
            run.append(of_file(evaluation("another")))
            await asyncio.sleep(0.1)
            assert len(seen) == 1
        await wait_until(lambda: len(seen) == 2)

    during(run, lambda folder: seen.append(len(folder.evaluations())), work)
    assert seen == [3, 4]


def test_answers_rest_twenty_times_as_long_after_the_first(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, slept = iter((0.0, 0.5, 0.5, 1.5)), list[float]()
    sleep = asyncio.sleep
    monkeypatch.setattr(module, "time", SimpleNamespace(thread_time=lambda: next(ticks)))

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0.005)

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": noted}))

    async def work(_machine: Machine) -> None:
        while len(slept) < 2:
            await sleep(0.005)
        assert slept[0] == 0.0
        run.append(of_file(evaluation("another")))
        while max(slept) < 1.0:
            await sleep(0.005)

    during(run, lambda _folder: None, work)
    assert max(slept) == 20.0


def test_an_error_is_logged_and_the_search_goes_on(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    called: list[RunFolder] = []

    def broken(folder: RunFolder) -> None:
        called.append(folder)
        raise OSError("no space left on device")

    async def work(_machine: Machine) -> None:
        await wait_until(lambda: len(called) == 1)
        run.append(of_file(evaluation("another")))
        await wait_until(lambda: len(called) == 2)

    with caplog.at_level(logging.WARNING):
        during(run, broken, work)
    assert "OSError: no space left on device" in caplog.text


@pytest.fixture(params=[LIGHT, HEAVY], ids=lambda recipe: recipe.name)
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TrainingRecipe:
    """Return a recipe that the table has after the head, as if it had been written there."""
    recipe: TrainingRecipe = request.param
    names = list(training.TRAININGS)
    names.insert(names.index(TrainingName.HEAD) + 1, recipe.name)
    table = {**training.TRAININGS, recipe.name: recipe}
    monkeypatch.setattr(training, "TRAININGS", MappingProxyType({name: table[name] for name in names}))
    return recipe


def plan(toy: TrainingRecipe) -> Plan:
    trainings = tuple(
        name for name in training.TRAININGS if name in (TrainingName.FINETUNE_TOP, toy.name, TrainingName.HEAD)
    )
    cards = Catalogue.load().select([CARD])
    return planned(cards, ("float32", "int8"), (1,), trainings, RUNTIME, images=100, validation=20, holdout=20)


def test_users_choose_it_by_its_name_and_tune_it_if_it_tunes_the_backbone(toy: TrainingRecipe) -> None:
    assert toy.name in list_choices("training")
    assert toy.name in CLASSIFICATION.trainings
    assert resolve({"data": "photos", "training": [toy.name]}).question.trainings == (TrainingName.HEAD, toy.name)
    assert toy.name not in DETECTION.trainings
    must_fail(UsageError, toy.name, resolve, {"task": DETECTION.name, "data": "boxes", "training": [toy.name]})
    tuned = {"data": "photos", "training": [toy.name], "tune_training": 6}
    if toy.tunes_backbone:
        assert resolve(tuned).question.tune_training == 6
    else:
        must_fail(UsageError, "nothing is fine-tuned", resolve, tuned)


def test_it_is_named_trained_twice_judged_and_compressed_in_its_place_of_the_table(toy: TrainingRecipe) -> None:
    assert plan(toy).trainings == (TrainingName.HEAD, toy.name, TrainingName.FINETUNE_TOP)
    assert [each.training for each in plan(toy).configurations()[::2]] == [
        TrainingName.HEAD,
        toy.name,
        TrainingName.FINETUNE_TOP,
    ]
    workload = plan(toy).workload
    assert plan(toy).configuration(CARD, "int8", 1, toy.name).variant_name == f"{toy.name} int8"
    assert workload.images[Role.HOLDOUT] == 20
    assert workload.trained_twice(toy.name)
    assert workload.judged(toy.name)
    assert workload.recipes_of(toy.name) == ("float32", "int8")
