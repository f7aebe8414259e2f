"""The search loop over an evaluator that makes its results up: what it starts, keeps and returns."""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest
from optuna.storages import InMemoryStorage

from advisor.catalog import Catalogue
from advisor.core import (
    Configuration,
    Evaluation,
    HoldoutPart,
    Provenance,
    Quantity,
    StageError,
    Status,
    TimeSummary,
    TimingFacts,
)
from advisor.engine import Role, Scope, StageName, input_spec, resolve, score_stage
from advisor.engine._pipeline.cost import TRAINING_WALL
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.materials import Artefact
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._pipeline.stages.figures import SURVEY
from advisor.engine._scheduling import early_score, finalists
from advisor.engine._scheduling.early_score import PickSoFar
from advisor.engine._scheduling.scheduler import COMPLETE
from advisor.engine._scheduling.search_loop import WRITING_S, SearchLoop
from advisor.engine._scheduling.stop import Stop
from advisor.engine._scheduling.study import Study
from advisor.engine._space.plan import Plan
from advisor.store import RunFolder
from tests.builders import RUNTIME, evaluation, must_fail, of_file, present
from tests.engine.plans import changed, planned
from tests.processes import PATIENCE_S, wait_until

CARDS = ("mobilenet_v2_1.0_224", "efficientnet_lite0_224", "squeezenet_1.1_227")
BEST = CARDS[0]
Result = Callable[[Configuration], Evaluation]
NAMES: dict[str, str] = {}


def plan(*trainings: str) -> Plan:
    return planned(Catalogue.load().select(list(CARDS)), ("float32", "int8"), (1,), trainings or ("head",), RUNTIME)


def with_file(made: Evaluation, name: str) -> Evaluation:
    """The evaluation with a file that a test knows by a name."""
    found = of_file(made, name)
    NAMES[found.artefact_sha256] = name
    return found


def named(made: Evaluation) -> str:
    return NAMES[made.artefact_sha256]


def ok(configuration: Configuration) -> Evaluation:
    """The first card is better in everything than the others."""
    rank = CARDS.index(configuration.card)
    made = evaluation(accuracy=95 - 20 * rank, half_width=1, latency=5 + 5 * rank, size=1e6 * (1 + rank))
    return with_file(replace(made, configuration=configuration), f"{configuration.card}-{configuration.compression}")


class MadeUp:
    """Evaluates by a function, after a pause; scores files in the time of their names; notes what it did."""

    def __init__(self, result: Result = ok, pause_s: float = 0.0, **scoring_s: float) -> None:
        self._result, self._pause_s, self._scoring_s = result, pause_s, scoring_s
        self.screening, self.holdout_images, self.captures = True, 500, True
        self.started: list[Configuration] = []
        self.cancelled: list[Configuration] = []
        self.scored: list[str] = []
        self.dropped = set[str]()

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        self.started.append(configuration)
        try:
            await asyncio.sleep(self._pause_s)
        except asyncio.CancelledError:
            self.cancelled.append(configuration)
            raise
        return self._result(configuration)

    async def time_again(self, made: Evaluation) -> Evaluation:
        assert made.timing is not None
        return replace(made, timing=replace(made.timing, effort="search"))

    def newest(self, made: Evaluation) -> Evaluation:
        return made

    on_worst_device = newest

    def affordable(self, rows: Collection[Evaluation], seconds: float) -> int:
        return min(self.holdout_images, int(10 * min(seconds, 1000)))

    async def hold_out(self, made: Evaluation, most: int | None = None) -> Evaluation:
        await asyncio.sleep(self._scoring_s.get(named(made), 0.0))
        self.scored.append(named(made))
        part = HoldoutPart(most, self.holdout_images) if most and most < self.holdout_images else None
        return replace(made, holdout_accuracy=Quantity(90.0, "%", Provenance.MEASURED), holdout_part=part)

    async def capture(self, made: Evaluation) -> Evaluation:
        raise StageError("no such images")

    def tells_unknown(self, _in_time: bool) -> bool:
        return False

    async def drop(self, cards: Collection[str]) -> None:
        self.dropped |= set(cards)

    def forget_failures(self) -> None:
        self._result = ok

    def stop_screening(self) -> None:
        self.screening = False


class Quiet:
    """Notes what a progress bar would show."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.count = 0
        self.most_deferred = 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def evaluated(self, made: Evaluation) -> None:
        self.count += 1

    def deferred(self, configurations: Collection[Configuration]) -> None:
        self.most_deferred = max(self.most_deferred, len(configurations))


async def look(so_far: PickSoFar, *pauses_s: float) -> None:
    """Look at the pick so far before each pause."""
    for pause_s in pauses_s:
        so_far.begin_scoring()
        await asyncio.sleep(pause_s)
    await so_far.close()


def test_what_could_not_be_timed_is_timed_again_at_the_end(tmp_path: Path) -> None:
    def stopped(configuration: Configuration) -> Evaluation:
        stage = StageName.TIMING if configuration.card == BEST else StageName.COMPRESS
        return replace(ok(configuration), status=Status.FAILED, stage=stage, reason="no result after 92.4 s")

    search = Search(tmp_path, plan())
    asyncio.run(search.evaluate_all(evaluator := MadeUp(stopped)))
    asyncio.run(search.loop().retry_timings(evaluator))
    status = {(each.configuration.card, each.status) for each in search.run.evaluations()}
    assert status == {(BEST, Status.OK), *((card, Status.FAILED) for card in CARDS[1:])}


def run_of(folder: Path, *cards: str) -> RunFolder:
    """Return a run with a file of each card, which has its name."""
    run = RunFolder.create(folder, "run")
    for card in cards:
        run.append(with_file(evaluation(card), card))
    return run


class Search:
    """One search in a run folder."""

    def __init__(self, folder: Path, space: Plan, **options: object) -> None:
        self.request = resolve({"sampler": "advisor", **options})
        self.run, self.progress, self.plan = RunFolder.create(folder, "run"), Quiet(), space
        self.study = Study(InMemoryStorage(), "s", space, self.request.question.limits, "advisor", seed=0, done=())

    def loop(self) -> SearchLoop:
        return SearchLoop(self.request, self.run, self.progress, time.monotonic(), cores=2)

    async def evaluate_all(
        self, evaluator: MadeUp, scorer: MadeUp | None = None, loop: SearchLoop | None = None
    ) -> Stop:
        return await (loop or self.loop()).evaluate_all(self.study, evaluator, self.plan, 0, scorer)


def test_everything_is_evaluated_once_kept_and_told(tmp_path: Path) -> None:
    search, evaluator = Search(tmp_path, plan()), MadeUp()
    assert asyncio.run(search.evaluate_all(evaluator)) == COMPLETE
    assert sorted(evaluator.started) == sorted(search.plan.configurations())
    assert sorted(e.configuration for e in search.run.evaluations()) == sorted(search.plan.configurations())
    assert search.study.unevaluated == 0
    assert search.progress.count == search.plan.size


@pytest.mark.parametrize("limit", [None, "20min"])
def test_a_number_of_trials_ends_the_search_also_within_a_time_limit(tmp_path: Path, limit: str | None) -> None:
    search, evaluator = Search(tmp_path, plan(), max_trials=2, time_limit=limit), MadeUp()
    stop = asyncio.run(search.evaluate_all(evaluator))
    assert stop.text == "stopped at --max-trials 2: 4 configurations not evaluated"
    assert len(evaluator.started) == 2


def test_a_time_limit_cancels_what_runs_and_keeps_what_is_done(tmp_path: Path) -> None:
    search, evaluator = Search(tmp_path, plan(), time_limit="3s"), MadeUp(pause_s=600)
    stop = asyncio.run(search.evaluate_all(evaluator))
    assert (stop.why, stop.reason) == ("time_limit", "stopped at the time limit of 3s")
    assert evaluator.cancelled == evaluator.started != []
    assert list(search.run.evaluations()) == []


def test_a_search_ends_before_a_limit_if_its_rest_is_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock(monkeypatch)
    stop = asyncio.run(Search(tmp_path, plan(), time_limit="12s").evaluate_all(MadeUp()))
    assert (stop.why, stop.left) == ("time_limit", 3)
    assert stop.reason == "stopped because the rest does not fit into the time limit of 12s"


def test_a_default_search_ends_where_more_would_not_pay_and_says_what_it_did_not_fine_tune(tmp_path: Path) -> None:
    many = changed(plan("head", "finetune_cached"), images=20_000, validation=1000)
    search, evaluator = Search(tmp_path, many, data=str(tmp_path)), MadeUp()
    stop = asyncio.run(search.evaluate_all(evaluator))
    assert stop.why == "gain"
    rows = {e.configuration: e for e in search.run.evaluations()}
    refused = {each for each, row in rows.items() if row.status is Status.SKIPPED}
    assert refused == {each for each in search.plan.configurations() if each.training != "head"} - {*evaluator.started}
    assert {rows[each].stage for each in refused} == {StageName.PROMOTION}
    left = len(set(search.plan.configurations()) - {*evaluator.started})
    assert stop.text.endswith(f": {left} configurations not evaluated")
    assert search.progress.most_deferred > 0


def test_an_error_of_the_evaluator_is_raised(tmp_path: Path) -> None:
    def broken(configuration: Configuration) -> Evaluation:
        raise ZeroDivisionError

    must_fail(ZeroDivisionError, "", asyncio.run, Search(tmp_path, plan()).evaluate_all(MadeUp(broken)))


def test_the_pick_so_far_is_scored_on_the_hold_out_while_the_search_goes_on(tmp_path: Path) -> None:
    class WaitsForTheScore(MadeUp):
        """No evaluation but the first ends before a file was scored."""

        async def evaluate(self, configuration: Configuration) -> Evaluation:
            made = await super().evaluate(configuration)
            if configuration != self.started[0]:
                await asyncio.wait_for(scored.wait(), timeout=PATIENCE_S)
            return made

        async def hold_out(self, made: Evaluation, most: int | None = None) -> Evaluation:
            scored.set()
            return await super().hold_out(made)

    scored = asyncio.Event()
    search, evaluator = Search(tmp_path, plan(), data=str(tmp_path)), WaitsForTheScore()
    asyncio.run(search.evaluate_all(evaluator, evaluator))
    assert [named(e) for e in search.run.evaluations() if e.holdout_accuracy] == evaluator.scored


@pytest.mark.parametrize(("young_s", "scored"), [(60.0, ["second"]), (0.0, [])])
def test_a_score_of_a_former_pick_gives_way_if_it_has_just_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, young_s: float, scored: list[str]
) -> None:
    monkeypatch.setattr(early_score, "YOUNG_S", young_s)
    evaluator, run = MadeUp(first=PATIENCE_S), run_of(tmp_path, "first", "second")
    first, second = run.evaluations()
    picks = chain((first,), repeat(second))

    async def looked() -> None:
        so_far = PickSoFar(lambda: next(picks), evaluator, run)
        for _ in range(2):
            so_far.begin_scoring()
            await asyncio.sleep(0.01)
        await wait_until(lambda: len(evaluator.scored) == len(scored))
        await so_far.close()

    asyncio.run(looked())
    assert evaluator.scored == scored


@pytest.mark.parametrize(("changes", "rest"), [(True, 1e9), (False, 1.0)], ids=["another pick", "the same"])
def test_after_a_score_it_looks_again_though_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: bool, rest: float
) -> None:
    """A fine-tuning may run alone for minutes: another pick is scored at once, else there is a rest."""
    monkeypatch.setattr(early_score, "REST", rest)
    evaluator, run = MadeUp(first=0.05, second=0.05), run_of(tmp_path, "first", "second")

    async def looked() -> None:
        pick = "first"
        so_far = PickSoFar(lambda: {named(e): e for e in run.evaluations()}[pick], evaluator, run)
        so_far.begin_scoring()
        if not changes:
            await wait_until(lambda: len(run.evaluations_file.read_text().splitlines()) == 3)
        pick = "second"
        await wait_until(lambda: evaluator.scored == ["first", "second"])
        await so_far.close()

    asyncio.run(looked())


def test_a_file_that_cannot_be_scored_is_tried_once(tmp_path: Path) -> None:
    tried = list[str]()

    class Failing(MadeUp):
        async def hold_out(self, made: Evaluation, most: int | None = None) -> Evaluation:
            tried.append(made.configuration.card)
            raise StageError("no such file")

    evaluator, run = Failing(), run_of(tmp_path, "first")
    (first,) = run.evaluations()
    asyncio.run(look(PickSoFar(lambda: first, evaluator, run), 0.1, 0.1))
    assert tried == ["first"]


def test_rows_of_one_file_have_one_figure_on_the_hold_out(tmp_path: Path) -> None:
    evaluator, run = MadeUp(), RunFolder.create(tmp_path, "run")
    known, new = (with_file(evaluation("one", threads=count), "file") for count in (1, 2))
    run.append(replace(known, holdout_accuracy=known.accuracy))
    run.append(new)
    asyncio.run(finalists.score_finalists(run.evaluations(), evaluator, run, lambda: 8.0))
    assert not evaluator.scored
    assert [row.holdout_accuracy for row in run.evaluations()] == [known.accuracy] * 2


def test_the_finalists_are_scored_on_the_hold_out_once(tmp_path: Path) -> None:
    search, evaluator = Search(tmp_path, plan(), data=str(tmp_path)), MadeUp()
    asyncio.run(search.evaluate_all(evaluator))
    for _ in range(2):
        asyncio.run(search.loop().judge(evaluator))
    assert sorted(evaluator.scored) == [f"{BEST}-float32", f"{BEST}-int8"]
    scored = [e for e in search.run.evaluations() if e.holdout_accuracy is not None]
    assert {e.configuration.card for e in scored} == {BEST}


@pytest.mark.parametrize(("left_s", "scored"), [(600.0, 4), (0.0, 2)])
def test_within_a_limit_pick_and_runner_up_are_scored_before_others(tmp_path: Path, left_s: float, scored: int) -> None:
    run, evaluator = RunFolder.create(tmp_path, "run"), MadeUp()
    evaluator.captures = False
    rows = [with_file(evaluation(f"card{n}"), f"file{n}") for n in range(4)]
    asyncio.run(finalists.score_finalists(rows, evaluator, run, lambda: left_s))
    assert evaluator.scored == [f"file{n}" for n in range(scored)]


def test_where_all_images_do_not_fit_the_pick_is_judged_on_a_part_and_later_on_more(tmp_path: Path) -> None:
    run, evaluator = run_of(tmp_path, "pick", "second"), MadeUp()
    evaluator.captures = False
    for left_s, images in ((12.0, 100), (13.0, 100), (24.0, 200), (650.0, None)):
        asyncio.run(finalists.score_finalists(tuple(run.evaluations()), evaluator, run, lambda left_s=left_s: left_s))
        parts = {named(each): each.holdout_part for each in run.evaluations()}
        assert parts["pick"] == (HoldoutPart(images, 500) if images else None)
    assert evaluator.scored == ["pick", "second"] * 3


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass from now on, on a machine without other programs: what is left of a limit is compared later."""
    now = time.monotonic()
    monkeypatch.setattr("advisor.engine._scheduling.search_loop.time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr("advisor.engine._scheduling.search_loop.waiting_factor", lambda: 1.0)


def test_evaluations_end_early_enough_for_the_hold_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, changed(plan(), images=1000, holdout=5000), time_limit="1h")
    loop = search.loop()
    asyncio.run(search.evaluate_all(MadeUp(), loop=loop))
    stop_clock(monkeypatch)
    left_s, whole_s = present(loop._evaluating_left()), present(loop._answer_left())
    judging_s = search.plan.judging_s(loop.places)
    assert whole_s - left_s == pytest.approx(judging_s, abs=1.0)
    late_s = present(loop._evaluating_left(grace=0.6))
    assert late_s - left_s == pytest.approx(0.6 * judging_s, abs=1.0), "what runs may take a part of it"
    search.plan = loop._plan = changed(plan(), images=100, holdout=9)
    assert present(loop._answer_left()) - present(loop._evaluating_left(grace=0.6)) == pytest.approx(2.0, abs=0.5)


def test_the_hold_out_needs_a_smaller_reserve_where_a_file_of_the_card_has_run(tmp_path: Path) -> None:
    search = Search(tmp_path, changed(plan(), images=1000, holdout=5000), time_limit="1h")
    loop, card = search.loop(), search.plan.cards[0]
    asyncio.run(search.evaluate_all(MadeUp(), loop=loop))
    assert loop._holdout_s(card) == pytest.approx(1.75 * loop.judging.seconds(card, "float32", 5000))
    scored = score_stage(Scope(card.name), input_spec(card), Artefact(card.name, "0" * 64, 1), Role.VALIDATION, 3.0)
    loop.judging.note(StageEvent(scored, EventKind.DONE, cpu_s=9.0), 100)
    assert loop._holdout_s(card) == pytest.approx(1.25 * loop.judging.seconds(card, "float32", 5000))


def test_a_first_result_may_take_the_time_of_the_hold_out(tmp_path: Path) -> None:
    # The limit is long, as a busy machine leaves ten times as much for the answer.
    search = Search(tmp_path, changed(plan(), images=1000, holdout=50_000_000), time_limit="10min", stop_below="never")
    assert search.plan.judging_s() > 600.0
    asyncio.run(search.evaluate_all(MadeUp(pause_s=1.0)))
    assert {each.status for each in search.run.evaluations()} == {Status.OK}


def test_where_the_hold_out_refutes_the_pick_the_next_pick_is_judged_too(tmp_path: Path) -> None:
    class Refuting(MadeUp):
        async def hold_out(self, made: Evaluation, most: int | None = None) -> Evaluation:
            judged = await super().hold_out(made)
            value = 50.0 if made.configuration.card == "first" else 90.0
            return replace(judged, holdout_accuracy=Quantity(value, "%", Provenance.MEASURED, value - 1, value + 1))

    search, evaluator = Search(tmp_path, plan(), min_accuracy="85%"), Refuting()
    for card, accuracy, latency in (("first", 92.0, 5.0), ("second", 90.0, 6.0), ("third", 89.9, 7.0)):
        made = evaluation(card, accuracy=accuracy, half_width=0.1, latency=latency, size=latency * 1e6)
        search.run.append(with_file(made, card))
    asyncio.run(search.loop().judge(evaluator))
    assert evaluator.scored[0] == "first"
    assert "second" in evaluator.scored
    (judged,) = [e for e in search.run.evaluations() if e.configuration.card == "second"]
    assert judged.holdout_accuracy is not None


def test_an_interrupted_search_leaves_the_hold_out_to_the_resumed_one(tmp_path: Path) -> None:
    search, evaluator = Search(tmp_path, plan(), data=str(tmp_path)), MadeUp()
    asyncio.run(search.evaluate_all(evaluator))
    loop = search.loop()
    loop.stopping.set()
    asyncio.run(loop.judge(evaluator))
    assert evaluator.scored == []


def test_finalists_that_were_timed_briefly_are_timed_again(tmp_path: Path) -> None:
    def brief(configuration: Configuration) -> Evaluation:
        made = ok(configuration)
        times = TimeSummary(present(made.latency).value, present(made.latency_p90).value)
        return replace(made, timing=TimingFacts(effort=SURVEY, wall_ms=times))

    search, evaluator = Search(tmp_path, plan()), MadeUp(brief)
    asyncio.run(search.evaluate_all(evaluator))
    asyncio.run(search.loop().time_again(evaluator))
    efforts = {(e.configuration.card, e.timing.effort) for e in search.run.evaluations() if e.timing is not None}
    assert efforts == {(BEST, "search"), *((card, SURVEY) for card in CARDS[1:])}


@pytest.mark.parametrize("loaded", [False, True])
def test_spare_time_is_for_heads_of_other_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: bool) -> None:
    class Tuning(MadeUp):
        async def evaluate(self, configuration: Configuration) -> Evaluation:
            tuned = configuration.training != "head"
            begun.append((configuration.card in loop.spare, tuned, asyncio.get_running_loop().time()))
            self._pause_s = 1.0 if tuned else 600.0 if configuration.card in loop.spare else 0.0
            return await super().evaluate(configuration)

    begun = list[tuple[bool, bool, float]]()
    space = changed(plan("head", "finetune_cached"), images=1000, validation=200)
    search, evaluator = Search(tmp_path, space, data=str(tmp_path), time_limit="10min"), Tuning()
    loop = SearchLoop(search.request, search.run, search.progress, time.monotonic(), cores=2, spare_jobs=2)
    # Other programs leave no time once the fine-tuning has begun.
    monkeypatch.setattr(loop, "_is_loaded", lambda: loaded and any(tuned for _, tuned, _ in begun))
    asyncio.run(search.evaluate_all(evaluator, loop=loop))
    assert {(spare, tuned) for spare, tuned, _ in begun} == {(False, False), (False, True), (True, False)}
    given_up = {configuration.card for configuration in evaluator.cancelled}
    assert set() != given_up == (evaluator.dropped if loaded else loop.spare), "nothing waits for them"
    assert max(at for *_, at in begun) - begun[0][2] < 60.0


def test_where_every_card_is_too_slow_the_fastest_are_evaluated_all_the_same(tmp_path: Path) -> None:
    def screened(configuration: Configuration) -> Evaluation:
        if evaluator.screening:
            return Evaluation(configuration, Status.SKIPPED, reason="too slow", stage="screen")
        return ok(configuration)

    search, evaluator = Search(tmp_path, plan(), budget="1ms"), MadeUp(screened)

    async def rescued() -> None:
        await search.evaluate_all(evaluator)
        await search.loop().rescue(evaluator, search.plan)

    asyncio.run(rescued())
    fastest = sorted(search.plan.cards, key=lambda card: card.macs)[:2]
    found = {e.configuration.card for e in search.run.evaluations() if e.status is Status.OK}
    assert found == {card.name for card in fastest}


@pytest.mark.parametrize(("budget", "again"), [("1ms", True), ("50ms", False)])
def test_large_files_are_evaluated_only_where_nothing_meets_the_limit(tmp_path: Path, budget: str, again: bool) -> None:
    search, evaluator = Search(tmp_path, plan(), budget=budget), MadeUp()
    large, small = (search.plan.configuration(BEST, form, 1) for form in ("float32", "int8"))
    search.run.append(search.plan.skipped(large, "too large", StageName.PLAN))
    search.run.append(ok(small))
    asyncio.run(search.loop().rescue(evaluator, search.plan))
    assert evaluator.started == ([large] if again else [])


def test_fine_tuning_ends_early_enough_for_its_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, changed(plan("head", "finetune_cached"), images=1000, validation=200), time_limit="1h")
    pace = CostCalibration(tmp_path / "pace.json", cores=2)
    loop = SearchLoop(search.request, search.run, search.progress, time.monotonic(), 2, pace)
    asyncio.run(search.evaluate_all(MadeUp(), loop=loop))
    stop_clock(monkeypatch)
    left_s, budget = present(loop._evaluating_left()), present(loop.budget_training(BEST, "finetune_cached"))
    reserve = present(budget.reserve)
    assert reserve.seconds == pytest.approx(left_s - budget.seconds - WRITING_S, abs=0.1)
    assert reserve.wall_s == TRAINING_WALL
    assert 1.0 < reserve.seconds < 120.0
    assert budget.share == 1.0
    assert Search(tmp_path, plan()).loop().budget_training(BEST, "finetune_cached") is None
