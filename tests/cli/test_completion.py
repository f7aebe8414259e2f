"""What a shell completes, asked as a shell does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from advisor.cli import completion
from advisor.cli.main import app
from tests.run_folders import write_run


def completed(words: str, option: str, given: str) -> list[str]:
    """Return what a shell completes for an option or argument of a command."""
    command: Any = typer.main.get_command(app)
    for word in words.split():
        command = command.commands[word]
    context = command.make_context(words, [], resilient_parsing=True)
    (asked,) = (each for each in command.params if each.name == option)
    return [each.value for each in asked.shell_complete(context, given)]


@pytest.mark.parametrize(
    ("option", "given", "found"),
    [
        ("candidates", "mobilenet_v2_1.0_2", "mobilenet_v2_1.0_224"),
        ("candidates", "squeezenet_1.1_227,mobilenet_v2_1.0_22", "squeezenet_1.1_227,mobilenet_v2_1.0_224"),
        ("device", "host,raspberry-pi-4", "host,raspberry-pi-4"),
        ("compressions", "weight", "weight_int8"),
        ("training", "finetune_c", "finetune_cached"),
        ("metric", "bal", "balanced-accuracy"),
        ("prefer", "lat", "latency"),
        ("sampler", "ns", "nsga2"),
        ("task", "object-c", "object-counting"),
    ],
)
def test_names_are_completed_after_the_last_comma(option: str, given: str, found: str) -> None:
    assert found in completion.of(option)(given)


def test_an_option_that_takes_anything_has_no_completion() -> None:
    assert completion.of("budget")("5") == []


def test_runs_are_completed_in_the_folder_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert completion.runs("") == []
    for folder in ("runs", "old"):
        write_run(tmp_path / folder, name="first")
    names = {Path(run).name for run in completion.runs("runs/")}
    assert "latest" in names
    assert len(names) == 2
    assert all(run.startswith("old/") for run in completion.runs("old/"))


@pytest.mark.parametrize(
    ("words", "option", "given", "found"),
    [
        ("benchmark", "device", "raspberry-pi-4", "raspberry-pi-4"),
        ("devices calibrate", "name", "raspberry-pi-4", "raspberry-pi-4"),
        ("devices show", "name", "raspberry-pi-4", "raspberry-pi-4"),
        ("reevaluate", "device", "raspberry-pi-4", "raspberry-pi-4"),
        ("report", "must_run_on", "host,raspberry-pi-4", "host,raspberry-pi-4"),
        ("report", "prefer", "lat", "latency"),
        ("compress", "recipe", "float32,weight", "float32,weight_int8"),
        ("catalog show", "name", "mobilenet_v2_1.0_22", "mobilenet_v2_1.0_224"),
        ("catalog fetch", "names", "mobilenet_v", "mobilenet_v2"),
        ("data check", "card", "mobilenet_v2_1.0_22", "mobilenet_v2_1.0_224"),
        ("data check", "task", "object-c", "object-counting"),
        ("explain", "term", "p9", "p90"),
    ],
)
def test_commands_complete_cards_devices_recipes_and_terms(words: str, option: str, given: str, found: str) -> None:
    assert found in completed(words, option, given)


@pytest.mark.parametrize(
    ("words", "argument"),
    [("report", "run"), ("export", "run"), ("compare", "after"), ("reevaluate", "run"), ("search", "resume")],
)
def test_commands_complete_runs(words: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs")
    assert "runs/latest" in completed(words, argument, "")


def test_a_shell_gets_the_names(starts_processes: None) -> None:
    asked = {"_ADVISOR_COMPLETE": "complete_bash", "COMP_WORDS": "advisor search --metric wor", "COMP_CWORD": "3"}
    script = "import sys; sys.argv[0] = 'advisor'; from advisor.cli.main import main; main()"
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert said.stdout.split() == ["worst-group"]
