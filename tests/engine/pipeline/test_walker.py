"""The walker runs a graph and looks up what is kept; of two searches that want the same, one does it for both."""

import asyncio
import builtins
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from advisor import core
from advisor.core import Status
from advisor.engine import Machine, Pool, Resources, Scope, Stage, StageName
from advisor.engine._pipeline.graph import with_all_before
from advisor.engine._pipeline.lookup import Lookup
from advisor.engine._pipeline.stage import StageAborted
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._pipeline.walker import Walker, Workers, run_coroutine
from advisor.isolation import ChildPool, run_program
from advisor.store import ArtifactCache
from advisor.store._cache_uses import Lease
from advisor.store._limit import evict_results
from tests.builders import must_fail
from tests.engine.pipeline.walking import PLAIN, InThisProcess, materials, walk
from tests.isolation.functions import crash_until
from tests.processes import PATIENCE_S, has_ended, until
from tests.tables import with_cases


def write(text: str, path: Path) -> None:
    path.write_text(text)


def fail(error: Exception) -> None:
    raise error


def text_stage(name: StageName, text: str, *after: Stage[str]) -> Stage[str]:
    """Leave the texts of the stages before, and another one."""
    return Stage(
        name=name, scope=Scope("card"), version="1", doing="writing", after=after,
        inputs=lambda _, results: {"text": text, "before": [results[each] for each in after]},
        job=lambda _, results, folders: partial(
            write, " ".join([*(results[each] for each in after), text]), folders.out / "text"
        ),
        read=lambda folder: (folder / "text").read_text(),
    )  # fmt: skip


def failing_stage(error: Exception, recipe: str = "") -> Stage[str]:
    scope = Scope("card", compression=recipe)
    return Stage(name=StageName.SCORE, scope=scope, job=lambda *_: partial(fail, error), read=lambda _: "", **PLAIN)


def timing_stage(rows: dict[str, bool], brief: bool = False) -> Stage[float]:
    """Leave a number; rows say whether the timing was disturbed."""
    return Stage(
        name=StageName.TIMING, scope=Scope("card"), version="1", doing="timing", after=(),
        inputs=lambda *_: {"effort": "brief" if brief else "thorough"}, job=lambda *_: partial(dict, rows),
        read=lambda folder: folder.stat().st_mtime, resources=Resources(Pool.DEVICE),
        keep_if=lambda result: not result["disturbed"],
        also_kept_as=(lambda *_: {"effort": "thorough"}) if brief else None,
    )  # fmt: skip


CONVERT = text_stage(StageName.CONVERT, "converted")
CUT = text_stage(StageName.CUT, "cut", CONVERT)
JOIN = text_stage(StageName.JOIN, "joined", CUT, CONVERT)


def test_a_job_with_keyword_arguments_and_any_other_fault_of_the_program_fail_no_stage(tmp_path: Path) -> None:
    stage = replace(CONVERT, job=lambda _m, _r, folders: partial(write, path=folders.out / "text", text="lost"))
    must_fail(AssertionError, "positional", walk, stage, materials(tmp_path))
    must_fail(ZeroDivisionError, "", walk, failing_stage(ZeroDivisionError()), materials(tmp_path))


def kinds(events: list[StageEvent]) -> list[tuple[str, str]]:
    return [(event.stage.name.value, event.kind.value) for event in events]


def test_a_stage_runs_after_those_that_it_needs_and_each_runs_once(tmp_path: Path) -> None:
    events: list[StageEvent] = []
    assert with_all_before([JOIN, CUT]) == (CONVERT, CUT, JOIN)
    assert walk(JOIN, materials(tmp_path), listen=events.append) == "converted cut converted joined"
    order = [(stage, kind) for stage in ("convert", "cut", "join") for kind in ("started", "done")]
    assert kinds(events) == order


def crashing(until: int, **more: Any) -> Stage[str]:
    return replace(CONVERT, job=lambda _m, _r, at: partial(crash_until, until, at.checkpoints), read=str, **more)


@pytest.mark.integration
def test_a_training_whose_process_crashes_goes_on_once(tmp_path: Path) -> None:
    events: list[StageEvent] = []
    trains = {"epochs": lambda *_: lambda _checkpoints: None}
    with ChildPool() as pool:
        walk(crashing(2, **trains), materials(tmp_path), pool, events.append)
        assert [kind for _, kind in kinds(events)] == ["started", "crashed", "done"]
        assert events[-1].cpu_s >= 0.4  # of both processes
        must_fail(StageAborted, "crashed with SIGSEGV", walk, crashing(3, **trains), materials(tmp_path / "two"), pool)
        must_fail(StageAborted, "crashed with SIGSEGV", walk, crashing(2), materials(tmp_path / "other"), pool)


def test_what_an_earlier_search_kept_is_not_made_again(tmp_path: Path) -> None:
    walk(CUT, materials(tmp_path))
    events: list[StageEvent] = []
    walk(JOIN, materials(tmp_path), listen=events.append)
    assert kinds(events) == [("convert", "cached"), ("cut", "cached"), ("join", "started"), ("join", "done")]


@pytest.mark.parametrize("content", [None, b"\xff", b"converted cut by another"])
def test_a_damaged_result_counts_as_missing_and_is_made_again(tmp_path: Path, content: bytes | None) -> None:
    walk(CUT, materials(tmp_path))
    for file in tmp_path.rglob("cut-1/*/text"):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
    assert Lookup(materials(tmp_path)).find(CUT) is None
    events: list[StageEvent] = []
    assert walk(CUT, materials(tmp_path), listen=events.append) == "converted cut"
    assert kinds(events) == [("convert", "cached"), ("cut", "started"), ("cut", "done")]


def test_a_result_that_another_search_has_made_since_it_was_looked_for_stays(tmp_path: Path) -> None:
    class LookedEarlier(ArtifactCache):
        def has(self, folder: Path) -> bool:
            return False

    walk(CONVERT, materials(tmp_path))
    (result,) = tmp_path.rglob("convert-1/*/text")
    made = result.stat().st_mtime_ns
    assert walk(CONVERT, replace(materials(tmp_path), cache=LookedEarlier(tmp_path))) == "converted"
    assert result.stat().st_mtime_ns == made


def test_results_that_a_search_found_or_made_stay_until_it_ends_and_others_go(tmp_path: Path) -> None:
    root = tmp_path / "artifacts"
    walk(CUT, materials(root))
    walk(text_stage(StageName.CONVERT, "of another search"), materials(root))
    hold = Lease(tmp_path)
    walk(JOIN, replace(materials(root), cache=ArtifactCache(root, hold)))
    assert evict_results(tmp_path, 0).count == 1
    assert Lookup(materials(root)).find(JOIN) == "converted cut converted joined"
    hold.release()
    assert evict_results(tmp_path, 0).count == 3


def test_looking_up_finds_what_is_kept_and_makes_nothing(tmp_path: Path) -> None:
    given = materials(tmp_path / "cache")
    assert Lookup(given).find(JOIN) is None
    assert not (tmp_path / "cache").exists()
    walk(CUT, given)
    lookup = Lookup(given)
    assert lookup.find(CUT) == "converted cut"
    assert lookup.done([JOIN]) == {CONVERT, CUT}


@with_cases
def test_a_failure_says_which_stage_ended_the_evaluation_and_why(
    tmp_path: Path, error: str, values: list[Any], recipe: str, status: str, reason: str
) -> None:
    kind = vars(builtins).get(error) or getattr(core, error)
    raised = must_fail(StageAborted, "", walk, failing_stage(kind(*values), recipe), materials(tmp_path))
    assert (raised.status, raised.stage, raised.reason) == (status, StageName.SCORE, reason)


def test_an_unsupported_stage_runs_nothing_before_it(tmp_path: Path) -> None:
    with pytest.raises(StageAborted) as raised:
        walk(replace(JOIN, unsupported="the card is a file"), materials(tmp_path / "cache"))
    assert (raised.value.status, raised.value.reason) == (Status.SKIPPED, "the card is a file")
    assert not (tmp_path / "cache").exists()
    assert Lookup(materials(tmp_path)).find(replace(JOIN, unsupported="the card is a file")) is None


def test_a_disturbed_timing_is_not_kept(tmp_path: Path) -> None:
    given = materials(tmp_path)
    walk(timing_stage({"disturbed": True}), given)
    assert Lookup(given).find(timing_stage({"disturbed": True})) is None
    walk(timing_stage({"disturbed": False}), given)
    assert Lookup(given).find(timing_stage({"disturbed": False})) is not None


def test_a_thorough_timing_counts_as_a_brief_one_and_not_the_other_way_round(tmp_path: Path) -> None:
    given = materials(tmp_path)
    walk(timing_stage({"disturbed": False}, brief=True), given)
    assert Lookup(given).find(timing_stage({"disturbed": False})) is None
    events: list[StageEvent] = []
    walk(timing_stage({"disturbed": False}), given)
    walk(timing_stage({"disturbed": False}, brief=True), given, listen=events.append)
    assert [event.kind for event in events] == [EventKind.CACHED]


def test_remeasuring_takes_timings_anew_and_nothing_else(tmp_path: Path) -> None:
    given, events = materials(tmp_path), list[StageEvent]()
    for stage in (CUT, timing_stage({"disturbed": False})):
        walk(stage, given)
        walk(stage, given, listen=events.append, remeasure=True)
    assert kinds(events) == [("convert", "cached"), ("cut", "cached"), ("timing", "started"), ("timing", "done")]


def test_a_long_stage_counts_epochs_and_leaves_no_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.engine._pipeline import walker

    monkeypatch.setattr(walker, "EPOCHS_EVERY_S", 0.01)
    events: list[StageEvent] = []
    stage: Stage[str] = Stage(
        name=StageName.FINETUNE_TOP, scope=Scope("card"), **PLAIN, epochs=lambda *_: count_epochs,
        job=lambda _materials, _results, folders: partial(train, events, folders.checkpoints, folders.out),
        read=lambda folder: (folder / "model").read_text(), resources=Resources(Pool.TRAINERS, long=True),
    )  # fmt: skip
    assert walk(stage, materials(tmp_path), listen=events.append) == "trained"
    assert (EventKind.EPOCH, (2, 3), 0.5) in [(event.kind, event.epochs, event.share) for event in events]
    assert not list(tmp_path.glob("**/*.checkpoints"))


def train(events: list[StageEvent], checkpoints: Path, out: Path) -> None:
    """Train until an epoch was told of."""
    checkpoints.mkdir(parents=True)
    (checkpoints / "epochs").write_text("2")
    until(lambda: any(event.kind is EventKind.EPOCH for event in events))
    (out / "model").write_text("trained")


def count_epochs(checkpoints: Path) -> tuple[int, int, float] | None:
    file = checkpoints / "epochs"
    return (int(file.read_text()), 3, 0.5) if file.exists() and file.read_text() else None


class _Counted(InThisProcess):
    """Counts CPU seconds of each call."""

    def call(self, function: str, *args: Any, **more: Any) -> Any:
        more["pause"].cpu_s = 70.0
        return super().call(function, *args)


def test_a_job_tells_its_cpu_seconds_and_a_measurement_its_seconds(tmp_path: Path) -> None:
    events: list[StageEvent] = []
    for stage in (CONVERT, timing_stage({"disturbed": False})):
        walk(stage, materials(tmp_path), _Counted(), events.append)
    job, measurement = (event for event in events if event.kind is EventKind.DONE)
    assert (job.cpu_s, measurement.cpu_s) == (70.0, measurement.seconds)
    assert job.seconds < PATIENCE_S


def sleep(pid: Path) -> None:
    pid.write_text(str(os.getpid()))
    time.sleep(600)


def measure(pid: Path) -> None:
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    run_program([sys.executable, "-c", code], timeout_s=600)


@pytest.mark.integration
@pytest.mark.parametrize(("job", "pool"), [(sleep, Pool.LIGHT), (measure, Pool.DEVICE)], ids=["job", "measurement"])
def test_what_a_search_drops_ends_with_its_process(tmp_path: Path, job: Callable[[Path], None], pool: Pool) -> None:
    pid = tmp_path / "pid"
    stage: Stage[Path] = Stage(
        name=StageName.TIMING, scope=Scope("card"), **PLAIN, job=lambda *_: partial(job, pid),
        read=lambda folder: folder, resources=Resources(pool),
    )  # fmt: skip

    async def run(children: ChildPool) -> None:
        walker = Walker(materials(tmp_path / "cache"), Workers(Machine(1), dict.fromkeys(Pool, children)))
        waiting = asyncio.ensure_future(walker.run(stage))
        while not (pid.is_file() and pid.read_text()):
            await asyncio.sleep(0.01)
        await walker.drop({"other"})
        assert not waiting.done()
        await walker.drop()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    with ChildPool(tmp_path / "log.txt") as children:
        run_coroutine(run(children))
        until(partial(has_ended, int(pid.read_text())))


@pytest.mark.parametrize(("card", "pool"), [("card", Pool.SPARE), ("other", Pool.LIGHT)])
def test_the_jobs_of_a_card_on_spare_time_have_a_pool_of_their_own(tmp_path: Path, card: str, pool: str) -> None:
    called = list[str]()

    class Noting(InThisProcess):
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self, function: str, *args: Any, **_: Any) -> Any:
            called.append(self.name)

    async def run() -> None:
        pools = {name: Noting(name) for name in (Pool.SPARE, Pool.LIGHT)}
        workers = Workers(Machine(1, spare_jobs=1), pools, spare={card})
        stage: Stage[Path] = Stage(
            name=StageName.FEATURES, scope=Scope("card"), **PLAIN, job=lambda *_: partial(len, "x"), read=Path
        )
        await Walker(materials(tmp_path), workers).run(stage)

    run_coroutine(run())
    assert called == [pool]


def test_who_makes_it_is_told_to_whoever_waits(tmp_path: Path) -> None:
    cache, inputs, made, told = ArtifactCache(tmp_path), {"card": "a"}, threading.Event(), threading.Event()
    seen: list[str] = []

    def make(folder: Path) -> None:
        made.set()
        assert told.wait(PATIENCE_S)
        (folder / "file").write_text("made")

    def tell(who: str) -> None:
        seen.append(who)
        told.set()

    first = threading.Thread(target=cache.get, args=("train-1", inputs, make))
    first.start()
    assert made.wait(PATIENCE_S)
    folder = cache.get("train-1", inputs, lambda _: seen.append("made twice"), tell)
    first.join()
    assert seen == [f"process {os.getpid()}"]
    assert (folder / "file").read_text() == "made"
    assert not list(tmp_path.glob("train-1/*.holder"))
