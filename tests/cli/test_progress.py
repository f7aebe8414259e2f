"""Progress of commands that take a while, and ``--quiet``."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import typer

from advisor.cli.main import app
from advisor.cli.progress import QUIET, SlowSteps, download_bars, note, progress
from tests.cli.conftest import Advisor
from tests.cli.test_json import commands

ARGUMENTS = {
    "search": ("--budget", "50"),
    "init": (),
    "plan": ("--candidates", "mobilenet_v2_0.5_224", "--compressions", "float32"),
    "benchmark": ("nowhere.tflite",),
    "profile": ("nowhere.tflite",),
    "compress": ("nowhere.tflite", "--recipe", "int8"),
    "catalog list": ("--filter", "family=squeezenet"),
    "catalog show": ("squeezenet_1.1_227",),
    "catalog fetch": ("mobilenet_v2_0.5_224", "--offline"),
    "catalog check": ("--catalog", "nowhere.yaml"),
    "catalog add": ("nowhere.tflite",),
    "devices list": ("--filter", "kind=phone"),
    "devices show": ("raspberry-pi-4",),
    "devices add": ("nowhere.yaml",),
    "devices remove": ("raspberry-pi-4",),
    "devices calibrate": ("nowhere",),
    "data check": ("nowhere",),
    "report": ("nowhere",),
    "export": ("nowhere", "--list"),
    "compare": ("nowhere", "nowhere"),
    "reevaluate": ("nowhere",),
    "explain": ("p90",),
    "serve": ("--runs", "nowhere"),
    "mcp": ("--folder", "nowhere"),
    "doctor": ("--sort", "nothing"),
}
"""Arguments with which each command ends soon, with an answer or with an error."""


def wait_for(said: Callable[[], bool]) -> None:
    """Wait until something was written, for a minute at most."""
    end = time.monotonic() + 60
    while not said():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_short_step_is_not_shown_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("the first") as tell:
        tell("a step")
    assert capsys.readouterr() == ("", "")


def test_a_long_step_gets_one_line_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def written(line: str) -> bool:
        said.append(capsys.readouterr().err)
        return line in "".join(said)

    with SlowSteps("the first", wait_s=0.0, every_s=30.0) as steps:
        wait_for(lambda: written("the first\n"))
        steps.tell("the next")
        wait_for(lambda: written("the next\n"))
        steps.tell("the next")
    assert "".join(said) == "the first\nthe next\n"


def test_a_long_wait_of_short_steps_gets_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = count()
    with SlowSteps("the first", wait_s=0.2, every_s=30.0) as steps:

        def written() -> bool:
            steps.tell(f"step {next(numbers)}")
            return "step " in capsys.readouterr().err

        wait_for(written)


def test_a_program_that_follows_gets_a_line_for_each_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_PROGRESS", "lines")
    with progress("the first") as tell:
        tell("a step\x1b[31m")
        tell("the next")
    assert capsys.readouterr() == ("", "a step\\x1b[31m\nthe next\n")


def test_quiet_shows_no_step_no_download_and_no_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_PROGRESS", "lines")
    token = QUIET.set(True)
    with progress("the first") as tell, download_bars() as advance:
        tell("a step")
        advance("net.tflite", 1, 2)
        note("wrote report.md")
    QUIET.reset(token)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("command", commands(typer.main.get_command(app)))
def test_every_command_can_be_quiet(command: Any) -> None:
    assert any({"--quiet", "-q"} <= set(part.opts) for part in command.params)


def test_the_arguments_are_those_of_all_commands() -> None:
    assert set(ARGUMENTS) == {each.id for each in commands(typer.main.get_command(app))}


@pytest.mark.integration
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_quiet_command_says_only_its_answer_or_its_error_without_colour(
    advisor: Advisor, name: str, tmp_path: Path
) -> None:
    terminal = {"FORCE_COLOR": "1", "NO_COLOR": "1", "ADVISOR_PROGRESS": "lines"}
    said = advisor(*name.split(), *ARGUMENTS[name], "--quiet", **terminal)
    assert said.err == "" if said.code == 0 else said.err.startswith(("error: ", "nowhere")) or said.code == 3
    assert bool(said.out) or bool(said.err)
    assert "\x1b[3" not in said.out + said.err
