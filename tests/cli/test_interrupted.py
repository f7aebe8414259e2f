"""The end of an interrupted search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from advisor.core.errors import ExitCode

WITH_A_THREAD_THAT_WORKS = """
import importlib, sys, threading, time
from types import SimpleNamespace
from advisor import api
from advisor.cli.main import main
command = importlib.import_module("advisor.cli.search")
command.ENDS_WITHIN_S = 0.2
command.show_answer = lambda *_: None
api.search = lambda **_: SimpleNamespace(interrupted=True, path="runs/mine", view=None)
threading.Thread(target=time.sleep, args=(600,)).start()
sys.argv = ["advisor", "search", "--budget", "50ms"]
main()
"""


@pytest.mark.integration
@pytest.mark.usefixtures("starts_processes")
def test_an_interrupted_search_ends_although_a_thread_still_works(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", WITH_A_THREAD_THAT_WORKS],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert said.returncode == ExitCode.INTERRUPTED
    assert "continue with: advisor search --resume runs/mine" in said.stderr
