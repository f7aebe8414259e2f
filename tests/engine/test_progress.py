"""The file that says what a search is doing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from advisor.catalog import Catalogue
from advisor.core import Evaluation, Status
from advisor.engine import Progress, Snapshot, StageName
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._progress import Bar, Display, Lines
from advisor.engine._remaining import FILE, write_snapshot
from advisor.store import RunFolder
from tests.builders import configuration
from tests.engine.plans import planned
from tests.processes import until
from tests.tables import with_cases

CARD = "squeezenet_1.1_227"
PLAN = planned(Catalogue.load().select([CARD]), ("float32", "int8"), (1,), ("none",), "ai-edge-litert==2.3.0")

STAGES = PLAN.costs.stages(PLAN.cards[0])
CLIMB = planned(
    Catalogue.load().select([CARD, "mobilenet_v1_0.25_224"]), ("float32", "int8"), (1, 2), ("head", "finetune_top"),
    "ai-edge-litert==2.3.0", images=2000, validation=400,
)  # fmt: skip
TUNED = [each for each in CLIMB.configurations() if each.training == "finetune_top" and each.card == CARD]


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Iterator[Progress]:
    """A bar that shows every event, before its search starts."""
    monkeypatch.setattr("advisor.engine._progress.REST", 0.0)
    progress = Progress(Bar())
    yield progress
    progress.close()


def finished(progress: Progress) -> None:
    for stage in STAGES:
        progress.stage(StageEvent(stage, EventKind.STARTED))
        progress.stage(StageEvent(stage, EventKind.DONE))


def test_it_says_what_is_done_what_is_left_and_how_long(bar: Progress, capsys: pytest.CaptureFixture[str]) -> None:
    bar.start(PLAN, done=(), calibration=CostCalibration(Path("none")))
    bar.stage(StageEvent(STAGES[0], EventKind.STARTED))
    shown = capsys.readouterr().err
    assert "0 of 2 evaluated, about " in shown
    assert f"left: converting {CARD}" in shown
    assert shown.rpartition("\r")[2].index("left: ") < 50, "a terminal of 80 columns shows the work, too"
    finished(bar)
    bar.say("deciding")
    assert "100% |" in capsys.readouterr().err


@with_cases
def test_the_time_limit_is_shown_where_it_ends_before_the_work(
    bar: Progress, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, limit_s: float, shown: str
) -> None:
    monkeypatch.setattr("advisor.engine._progress.time", SimpleNamespace(monotonic=partial(next, count(0.0, 1e-3))))
    bar.start(PLAN, (), CostCalibration(Path("none")), limit_s)
    bar.say("converting")
    said = capsys.readouterr().err
    assert shown in said
    assert ("about" in said) == (limit_s == 86400)


def test_a_log_has_the_first_line_and_then_one_every_half_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("advisor.engine._progress.time", clock)
    progress = Progress(Lines())
    progress.say("reading images of photos")
    progress.start(PLAN, done=(), calibration=CostCalibration(Path("none")))
    for clock.now in (10.0, 31.0, 50.0, 62.0):
        progress.stage(StageEvent(STAGES[0], EventKind.STARTED))
    progress.close()
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "[0 s] reading images of photos"
    assert second.startswith("[31 s] 0 of 2 evaluated, about ")
    assert third.startswith("[1 min 02 s] 0 of 2 evaluated, about ")
    assert third.endswith(f" left: converting {CARD}")


@pytest.mark.parametrize("display", [Bar, Lines])
def test_the_answer_so_far_is_told_when_it_changes(
    display: Callable[[], Display], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = iter(("", "so far: one", "so far: one", "so far: two"))
    progress = Progress(display(), lambda _run: next(answers))
    progress.start(PLAN, done=(), calibration=CostCalibration(Path("none")))
    for _ in range(4):
        progress.answer(RunFolder(tmp_path))
    progress.close()
    said = capsys.readouterr().err
    assert said.count("so far: one") == said.count("so far: two") == 1


def test_it_is_quiet_where_nobody_watches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Progress(answer=lambda _run: "so far: one") as progress:
        progress.start(PLAN, done=(), calibration=CostCalibration(Path("none")))
        finished(progress)
        progress.answer(RunFolder(tmp_path))
    assert capsys.readouterr() == ("", "")


def test_the_run_keeps_what_the_terminal_shows_until_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("KEPT_S", "REST"):
        monkeypatch.setattr(f"advisor.engine._progress.{name}", 0.0)
    run, progress = RunFolder(tmp_path), Progress(Bar())
    with progress.kept_in(run):
        assert Snapshot.read_last(run) == Snapshot("starting")
        progress.start(PLAN, done=(), calibration=CostCalibration(Path("none")))
        progress.stage(StageEvent(STAGES[0], EventKind.STARTED))
        kept = Snapshot.read_last(run)
        assert kept
        assert kept.line in capsys.readouterr().err
        assert (kept.now, kept.evaluated, kept.configurations) == (f"converting {CARD}", 0, 2)
    assert not list(tmp_path.iterdir())


def test_a_second_interrupt_names_the_command_to_continue(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    progress = Progress(Lines())
    with progress.kept_in(RunFolder(tmp_path)):
        progress.say("evaluating")
    progress.__exit__(KeyboardInterrupt)
    assert capsys.readouterr().err.endswith(f"  advisor search --resume {tmp_path}\n")


def test_time_passes_in_a_log_and_in_the_run_although_no_stage_starts_or_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("EVERY_S", "KEPT_S", "TICK_S"):
        monkeypatch.setattr(f"advisor.engine._progress.{name}", 0.01)
    run = RunFolder(tmp_path)
    with Progress() as progress, progress.kept_in(run):
        progress._saying = "deciding"  # no event shows it
        until(lambda: Snapshot.read_last(run) == Snapshot("deciding"))
    said: list[str] = []

    def told_again() -> bool:
        said.append(capsys.readouterr().err)
        return "".join(said).count("fetching weights") >= 3

    with Progress(Lines()) as progress:
        progress.say("fetching weights of a card")
        until(told_again)


def test_a_busy_machine_is_named_once(bar: Progress, capsys: pytest.CaptureFixture[str]) -> None:
    bar.start(PLAN, done=(), calibration=CostCalibration(Path("none")))
    bar.stage(StageEvent(STAGES[0], EventKind.DONE, seconds=60.0, cpu_s=20.0))
    assert "other programs keep the machine busy: work takes 3.0 times as long\n" in capsys.readouterr().err
    bar.stage(StageEvent(STAGES[1], EventKind.DONE, seconds=60.0, cpu_s=20.0))
    assert "busy" not in capsys.readouterr().err


def test_a_running_stage_shows_epochs_and_for_whom_it_waits(bar: Progress, capsys: pytest.CaptureFixture[str]) -> None:
    bar.start(CLIMB, done=(), calibration=CostCalibration(Path("none")))
    stages = CLIMB.costs.stages(CLIMB.cards_by_name[CARD])
    stage = next(each for each in stages if each.name is StageName.FINETUNE_TOP)
    bar.stage(StageEvent(stage, EventKind.STARTED))
    bar.stage(StageEvent(stage, EventKind.EPOCH, epochs=(9, 18)))
    said = capsys.readouterr().err
    assert f"fine-tuning {CARD} (epoch 9 of 18)" in said
    half = 50 * CLIMB.costs.seconds(stage) / sum(CLIMB.costs.total_s(CLIMB.costs.stages(card)) for card in CLIMB.cards)
    assert f"{half:3.0f}% |" in said
    bar.stage(StageEvent(stage, EventKind.WAITING, waits_for="the same work in another search, process 4711"))
    waits = f"fine-tuning {CARD} (waits for the same work in another search, process 4711)"
    assert waits in capsys.readouterr().err
    bar.stage(StageEvent(stage, EventKind.ENDED))
    said = capsys.readouterr().err
    assert "left: choosing what comes next" in said
    assert "fine-tuning" not in said
    with bar.doing("measuring int8 of net on chromium"):
        assert "left: measuring int8 of net on chromium" in capsys.readouterr().err
    bar.evaluated(replace(Evaluation(configuration(), Status.FAILED), reason="crashed with SIGSEGV"))
    assert "crashed with SIGSEGV" in capsys.readouterr().err


def left(shown: str) -> str:
    return shown.rpartition("about ")[2].partition(" left")[0]


def test_what_is_skipped_or_deferred_is_not_waited_for_and_counts_again_when_it_comes_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.engine._progress.time", SimpleNamespace(monotonic=lambda: 0.0))
    progress, seen = Progress(Bar()), []
    progress.start(CLIMB, done=(), calibration=CostCalibration(Path("none")))
    for away in ((), TUNED, ()):
        progress.deferred(away)
        progress.say("")
        seen.append(left(capsys.readouterr().err))
    assert seen[0] == seen[2] != seen[1]
    for each in TUNED:
        progress.evaluated(Evaluation(each, Status.SKIPPED))
    progress.close()
    last = capsys.readouterr().err
    assert left(last) != seen[0]
    assert f"0 of {CLIMB.size} evaluated" in last, "what is skipped counts as the answer counts it"


@pytest.mark.parametrize(
    ("content", "snapshot"),
    [
        *((damaged, None) for damaged in ("", "[]", "{", '{"now": ["a"], "share": "b"}')),
        ('{"schema_version": 1, "now": "joining a", "left_s": "soon", "share": [], "more": 1}', Snapshot("joining a")),
    ],
)
def test_a_moment_is_read_as_written_without_damage(tmp_path: Path, content: str, snapshot: Snapshot | None) -> None:
    run = RunFolder(tmp_path)
    assert Snapshot.read_last(run) is None
    written = Snapshot("joining a", 3, 9, 75.2, 0.5)
    write_snapshot(run, written)
    assert Snapshot.read_last(run) == written
    (tmp_path / FILE).write_text(content, encoding="utf-8")
    assert Snapshot.read_last(run) == snapshot
    with Progress().kept_in(RunFolder(tmp_path / "gone")):
        pass  # a moment that cannot be written does not end the search
