"""What a shell completes, asked as a shell does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.cli import completion
from tests.run_folders import write_run


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


def test_a_shell_gets_the_names(starts_processes: None) -> None:
    asked = {"_ADVISOR_COMPLETE": "complete_bash", "COMP_WORDS": "advisor search --metric wor", "COMP_CWORD": "3"}
    script = "import sys; sys.argv[0] = 'advisor'; from advisor.cli.main import main; main()"
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert said.stdout.split() == ["worst-group"]
