"""What a shell completes, exit codes, progress and ``--quiet``, and the end of an interrupted search."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from advisor import __main__, __version__
from advisor.cli import _main as main, _options as completion, note
from advisor.cli._main import app
from advisor.cli._output import BEGAN, QUIET, SlowSteps, download_bars, fold_line, progress
from advisor.core import ExitCode, Option, StageError, UsageError, WeightsError
from tests.builders import must_fail
from tests.makers.commands import Advisor, refused
from tests.makers.forks import build_once
from tests.processes import PATIENCE_S, until
from tests.run_folders import write_run
from tests.tables import read_table, with_cases

HEAVY = ("tensorflow", "keras", "optuna", "pandas", "plotly", "sklearn", "skimage", "ai_edge_litert", "scipy", "numpy")
WITH_A_THREAD_THAT_WORKS = read_table(__file__, "programs.yaml")["with_a_thread_that_works"]


def test_version_and_without_a_command_the_help_are_shown(advisor: Advisor) -> None:
    assert advisor("--version").out.strip() == f"advisor {__version__}"
    said = advisor()
    assert "Exit codes" in said.out + said.err


@with_cases
def test_a_wrong_word_is_refused_with_what_to_write(advisor: Advisor, words: str, error: str, hint: str) -> None:
    refused(advisor(*words.split(), COLUMNS="200"), error, hint)


@pytest.mark.parametrize("group", [(), ("catalog",), ("devices",), ("data",), ("cache",)])
def test_help_names_every_command_in_a_whole_sentence(advisor: Advisor, group: tuple[str, ...]) -> None:
    commands = advisor(*group, "--help", COLUMNS="80").out.partition("Commands:")[2].partition("Exit codes")[0]
    assert all(line.endswith(".") and not line.endswith("...") for line in commands.split("\n") if line.strip())


@pytest.mark.integration
def test_nothing_heavy_is_loaded_at_the_start() -> None:
    code = f"import sys, advisor.cli._main; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def completed(words: str, option: str, given: str) -> list[str]:
    """Return what a shell completes for an option or argument of a command."""
    command: Any = build_once(app)
    for word in words.split():
        command = command.commands[word]
    context = command.make_context(words, [], resilient_parsing=True)
    (asked,) = (each for each in command.params if each.name == option)
    return [each.value for each in asked.shell_complete(context, given)]


def test_a_phone_is_completed_by_its_name_and_an_option_that_takes_anything_is_not() -> None:
    assert "host,pixel-8" in completion.completion_of("device")("host,Pixel 8")
    assert completion.completion_of("budget")("5") == []


def test_runs_are_completed_in_the_folder_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert completion.complete_runs("") == []
    for folder in ("runs", "old"):
        write_run(tmp_path / folder, name="first")
    names = {Path(run).name for run in completion.complete_runs("runs/")}
    assert "latest" in names
    assert len(names) == 2
    assert all(run.startswith("old/") for run in completion.complete_runs("old/"))
    for words, argument in (("report", "run"), ("export", "run"), ("compare", "after"), ("search", "resume")):
        assert "runs/latest" in completed(words, argument, "")


@with_cases
def test_a_long_line_is_folded_between_words_and_a_command_stays_whole(line: str, width: int, shown: str) -> None:
    assert fold_line(line, width) == shown


@with_cases
def test_names_are_completed_after_the_last_comma(words: str, option: str, given: str, found: str) -> None:
    assert found in completed(words, option, given)


def test_a_shell_gets_the_names(starts_processes: None) -> None:
    asked = {"_ADVISOR_COMPLETE": "complete_bash", "COMP_WORDS": "advisor search --metric wor", "COMP_CWORD": "3"}
    script = "import sys; sys.argv[0] = 'advisor'; from advisor.cli._main import main; main()"
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert said.stdout.split() == ["worst-group"]


def test_exit_codes_are_a_contract_and_errors_of_use_and_of_stages_have_theirs() -> None:
    numbers = {"OK": 0, "INTERNAL_ERROR": 1, "USAGE": 2, "UNSATISFIED": 3, "CHANGED": 4, "INTERRUPTED": 130}
    assert {code.name: code.value for code in ExitCode} == numbers
    assert [error.exit_code for error in (UsageError, WeightsError, StageError)] == [2, 2, 1]


def test_a_short_step_is_not_in_a_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.cli._output.WAIT_S", PATIENCE_S)  # on a busy machine no step is short
    BEGAN.set(None)  # no command began, whatever another test ran in this process
    with progress("the first") as tell:
        tell("a step")
    assert capsys.readouterr() == ("", "")


def test_a_long_step_gets_one_line_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def written(line: str) -> bool:
        said.append(capsys.readouterr().err)
        return line in "".join(said)

    with SlowSteps("the first", wait_s=0.0, every_s=30.0) as steps:
        until(lambda: written("the first\n"))
        steps.tell("the next")
        until(lambda: written("the next\n"))
        steps.tell("the next")
    assert "".join(said) == "the first\nthe next\n"


def test_a_long_wait_of_short_steps_gets_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = count()
    with SlowSteps("the first", wait_s=0.2, every_s=30.0) as steps:

        def written() -> bool:
            steps.tell(f"step {next(numbers)}")
            return "step " in capsys.readouterr().err

        until(written)


@pytest.mark.parametrize(("wait_s", "goes_on"), [(1000.0, True), (0.0, False)])
def test_a_wait_without_a_line_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wait_s: float, goes_on: bool
) -> None:
    monkeypatch.setattr("advisor.cli._output.WAIT_S", wait_s)
    token = BEGAN.set(began := time.monotonic())
    with progress("the first"):
        until(lambda: goes_on or capsys.readouterr().err == "the first\n")
    assert (BEGAN.get() == began) == goes_on
    BEGAN.reset(token)


def test_steps_are_told_and_to_quiet_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_PROGRESS", "lines")
    with progress("the first") as tell:
        tell("a step\x1b[31m")
        tell("the next")
    assert capsys.readouterr() == ("", "a step\\x1b[31m\nthe next\n")
    token = QUIET.set(True)
    with progress("the first") as tell, download_bars() as advance:
        tell("a step")
        advance("net.tflite", 1, 2)
        note("wrote report.md")
    QUIET.reset(token)
    assert capsys.readouterr() == ("", "")


@pytest.mark.integration
@pytest.mark.usefixtures("starts_processes")
def test_an_interrupted_search_ends_although_a_thread_still_works(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITH_A_THREAD_THAT_WORKS]
    said = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert said.returncode == ExitCode.INTERRUPTED
    assert "continue with: advisor search --resume runs/mine" in said.stderr


def test_an_interrupt_before_a_command_begins_ends_it_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "main", Mock(side_effect=KeyboardInterrupt))
    ended = must_fail(SystemExit, "", __main__.main)
    assert ended.code == ExitCode.INTERRUPTED


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Exception], str]:
    """Call the command whose work fails, check its exit code, and return what it says."""

    def call(error: Exception) -> str:
        monkeypatch.setattr(main, "app", Mock(side_effect=error))
        monkeypatch.setattr("signal.signal", Mock())
        ended = must_fail(SystemExit, "", main.main)
        assert ended.code == ExitCode.UNSATISFIED
        return capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError("failed to map segment"), SystemError("error return without exception set")]
)
def test_work_that_runs_out_of_memory_ends_with_the_rest(failing: Callable[[Exception], str], error: Exception) -> None:
    said = failing(error)
    assert said.startswith("error: memory ran out: ")
    assert "B are free" in said


def test_too_little_memory_for_the_reason_ends_without_it(
    failing: Callable[[Exception], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "advisor.api._runs", None)  # an import of it fails
    assert failing(MemoryError()).startswith("error: memory ran out\nhint:  free some memory")


def test_without_memory_errors_are_plain(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("typer.secho", Mock(side_effect=MemoryError))
    main._print_error("memory ran out: 1 MB is free", "buy some")
    assert capfd.readouterr().err.startswith("error: memory ran out\nhint:  free some memory")


def test_a_flag_of_two_words_is_written_with_a_hyphen() -> None:
    rows = completion.annotations_of({"keep_all": Option("Running", "", "Keep all.", default=False)})
    assert rows["keep_all"].__metadata__[0].default == "--keep-all"  # the first name that typer.Option was given
