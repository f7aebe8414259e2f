"""What a search has left, how long it will take, and how far its training is."""

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import Catalogue
from advisor.core import Configuration
from advisor.engine import EpochFile, Stage, StageName, VariantStages
from advisor.engine._pipeline import epoch_file
from advisor.engine._pipeline.cost import judging_s
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._remaining import Remaining
from advisor.engine._space.plan import Plan
from tests.builders import RUNTIME
from tests.engine.plans import changed, planned

CARDS = ("squeezenet_1.1_227", "mobilenet_v1_0.25_224", "mobilenet_v2_1.0_224")
HEADS = planned(
    Catalogue.load().select(list(CARDS)), ("float32", "float16", "int8"), (1, 2), ("head",), RUNTIME,
    images=400, validation=80, holdout=100, cores=2,
)  # fmt: skip
TUNED = changed(HEADS, trainings=("head", "finetune_top"))
PACES = {StageName.CONVERT: 2.5, StageName.FEATURES: 1.5, StageName.HEAD: 0.2, StageName.TIMING: 4.0}
"""Seconds that the stages of a made-up machine take for each planned second; others take one."""


def searched(plan: Plan, paces: dict[StageName, float]) -> Iterator[tuple[float, StageEvent]]:
    """Yield the events of a search on two cores, with their times: jobs side by side, measurements first and alone."""
    todo = [*(stage for card in plan.cards for stage in plan.costs.stages(card)), *captured(plan)]
    done, now, order = set[Stage[Any]](), 0.0, 0
    running: list[tuple[float, int, Stage[Any], float]] = []
    while todo or running:
        ready = [stage for stage in todo if done.issuperset(stage.after)]
        measurements = [stage for stage in ready if stage.resources.alone]
        measuring = bool(running) and running[0][2].resources.alone
        free = 0 if measuring else plan.cores - len(running)
        start = (measurements[:1] if not running else []) if measurements else ready[:free]
        for stage in start:
            seconds = plan.costs.seconds(stage) * paces.get(stage.name, 1.0)
            heapq.heappush(running, (now + seconds, order := order + 1, stage, seconds))
            todo.remove(stage)
            yield now, StageEvent(stage, EventKind.STARTED)
        now, _, stage, seconds = heapq.heappop(running)
        done.add(stage)
        yield now, StageEvent(stage, EventKind.DONE, seconds, cpu_s=seconds)


class Watched(Remaining):
    """What is left of a plan, with a calibration that learns of each event first."""

    def __init__(self, plan: Plan, done: Collection[Configuration], started: float) -> None:
        self.calibration = CostCalibration(Path("none"), cores=plan.cores)
        super().__init__(plan, done, started, self.calibration)

    def note(self, event: StageEvent, now: float, spare: bool = False) -> None:
        self.calibration.note(event, self._plan.costs.seconds(event.stage))
        super().note(event, now, spare)


def captured(plan: Plan) -> list[Stage[Any]]:
    """Return what pick and runner-up need at the end: made from the stages that judge two networks."""
    if not plan.images:
        return []
    judging = [VariantStages(card, "head", "int8", plan.workload).judging for card in plan.cards[:2]]
    return [
        replace(stage, name=StageName.CAPTURE, after=(stage,), cost_s=judging_s(card, plan.holdout))
        for card, (stage, *_) in zip(plan.cards, judging, strict=False)
    ]


def test_from_a_quarter_on_the_end_is_known_within_thirty_percent_of_what_is_left() -> None:
    events = list(searched(HEADS, PACES))
    end, remaining, checked = events[-1][0], Watched(HEADS, (), 0.0), 0
    for now, event in events:
        remaining.note(event, now)
        if 0.25 * end <= now <= 0.9 * end:
            assert remaining.seconds(now) == pytest.approx(end - now, rel=0.3, abs=3.0)
            checked += 1
    assert checked > 20


def test_a_stage_that_takes_longer_is_expected_to_take_longer_on_the_other_cards_too() -> None:
    first, *_ = (each for each in HEADS.costs.stages(HEADS.cards[0]) if each.name is StageName.CALIBRATE)
    expected = []
    for factor in (1.0, 5.0):
        remaining, price = Watched(HEADS, (), 0.0), HEADS.costs.seconds(first)
        remaining.note(StageEvent(first, EventKind.DONE, factor * price, cpu_s=factor * price), price)
        expected.append(remaining.seconds(price))
    assert expected[1] > 1.3 * expected[0]


def test_the_epochs_of_a_training_say_how_long_it_still_takes() -> None:
    plan = replace(TUNED, cards=TUNED.cards[:1])
    training = next(each for each in plan.costs.stages(plan.cards[0]) if each.name is StageName.FINETUNE_TOP)
    price, left = plan.costs.seconds(training), []
    for share in (0.5, 2.0):
        remaining = Watched(plan, (), 0.0)
        remaining.note(StageEvent(training, EventKind.STARTED), 0.0)
        remaining.note(StageEvent(training, EventKind.EPOCH, epochs=(9, 18)), share * price)
        left.append(remaining.seconds(share * price))
    assert left[1] - left[0] > 0.3 * price / plan.cores


def test_a_cached_stage_is_done_and_says_nothing_of_the_pace() -> None:
    (features, *_) = (each for each in HEADS.costs.stages(HEADS.cards[0]) if each.name is StageName.FEATURES)
    remaining = Watched(HEADS, (), 0.0)
    before = remaining.seconds(0.0)
    remaining.note(StageEvent(features, EventKind.CACHED), 0.0)
    assert before - remaining.seconds(0.0) == pytest.approx(HEADS.costs.seconds(features) / HEADS.cores)


def test_stages_that_another_configuration_needs_stay() -> None:
    mine = [each for each in TUNED.configurations() if each.training == "finetune_top" and each.card == CARDS[0]]

    def without(drop: Callable[[Remaining], None]) -> float:
        remaining = Watched(TUNED, (), 0.0)
        drop(remaining)
        return remaining.seconds(0.0)

    def evaluate(remaining: Remaining, threads: int) -> None:
        for each in mine:
            if each.target.threads >= threads:
                remaining.evaluated(each, made=True)

    everything = without(lambda _: None)
    assert without(lambda remaining: evaluate(remaining, threads=2)) == everything
    tuned_s = TUNED.costs.of_card(TUNED.cards_by_name[CARDS[0]]).trained_s["finetune_top"]
    assert without(lambda remaining: evaluate(remaining, threads=1)) < everything - tuned_s / TUNED.cores
    judged = without(lambda remaining: evaluate(remaining, threads=1))
    assert without(lambda remaining: remaining.defer(mine)) < judged, "what is not expected to start is not judged"
    assert judged < without(lambda remaining: remaining.defer(mine[1:])) <= everything


def test_if_many_forms_are_skipped_fewer_are_expected_to_be_made() -> None:
    all_made, none_made = Watched(HEADS, (), 0.0), Watched(HEADS, (), 0.0)
    for each in HEADS.configurations()[:9]:
        all_made.evaluated(each, made=True)
        none_made.evaluated(each, made=False)
    assert none_made.seconds(0.0) < 0.95 * all_made.seconds(0.0)


def test_neither_what_was_done_before_nor_what_is_not_expected_to_start_is_waited_for() -> None:
    done = [each for each in HEADS.configurations() if each.card != CARDS[-1]]
    alone = replace(HEADS, cards=HEADS.cards[-1:])
    assert Watched(HEADS, done, 0.0).seconds(0.0) < 1.5 * Watched(alone, (), 0.0).seconds(0.0)
    heads, all_of_it, planned_only = (Watched(plan, (), 0.0) for plan in (HEADS, TUNED, TUNED))
    assert Watched(HEADS, done, 0.0).seconds(0.0) < 0.6 * heads.seconds(0.0)
    planned_only.defer([each for each in TUNED.configurations() if each.training != "head"])
    assert planned_only.seconds(0.0) == pytest.approx(heads.seconds(0.0))
    assert planned_only.seconds(0.0) < all_of_it.seconds(0.0)


def test_at_the_end_nothing_is_left_and_all_is_done() -> None:
    plan = changed(HEADS, images=0, validation=0, holdout=0, trainings=("none",))
    remaining = Watched(plan, (), 0.0)
    assert remaining.share() == 0.0
    for now, event in searched(plan, {}):
        remaining.note(event, now)
    assert remaining.seconds(1e3) == 0.0
    assert remaining.share() == 1.0


def test_a_training_tells_the_time_before_its_first_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((100.0, 130.0, 140.0, 150.0, 160.0))  # begins, maps are there, three of three epochs
    monkeypatch.setattr(epoch_file.time, "monotonic", lambda: next(times))
    tell = EpochFile(tmp_path / "new")
    tell(0, 3)
    assert EpochFile.read(tmp_path / "new") is None
    shares = []
    for done in (1, 2, 3):
        tell(done, 3)
        found = EpochFile.read(tmp_path / "new")
        assert found[:2] == (done, 3)
        shares.append(found[2])
    assert shares == pytest.approx([40 / 60, 50 / 60, 1.0])


def test_what_a_training_that_was_ended_left_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    (tmp_path / epoch_file.FILE).write_text("[5, 20, 0.3]", encoding="utf-8")
    EpochFile(tmp_path)
    assert EpochFile.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null"])
def test_a_damaged_file_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / epoch_file.FILE).write_text(text, encoding="utf-8")
    assert EpochFile.read(tmp_path) is None
