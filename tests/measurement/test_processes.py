"""What becomes of a child process that does not answer."""

from functools import partial
from pathlib import Path

import pytest

from advisor.core import StageError
from advisor.isolation import _process as process
from advisor.measurement._processes import run_json
from tests.builders import must_fail
from tests.processes import clock_from, has_ended, until
from tests.tables import with_cases

pytestmark = pytest.mark.integration


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def test_the_document_is_returned_and_an_exception_told_by_its_last_line(script: Path) -> None:
    script.write_text("import json, sys; print(json.dumps({'arguments': sys.argv[1:]}))")
    assert run_json([str(script), "a b", "$HOME;ls"], 30, "m") == {"arguments": ["a b", "$HOME;ls"]}
    script.write_text("raise RuntimeError('the disk is full')")
    must_fail(StageError, r"status 1 and printed: RuntimeError: the disk is full", run_json, [str(script)], 30, "m")


@with_cases
def test_a_death_with_its_signal_and_other_output_are_one_clear_line(script: Path, code: str, said: str) -> None:
    script.write_text(code)
    caught = must_fail(StageError, "", run_json, [str(script)], 30, "model.tflite")
    assert caught.message.startswith(f"model.tflite: the measuring process {said}")
    assert "\n" not in caught.message


def test_a_hang_ends_with_its_process_group(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "grandchild"
    # The limit begins when the grandchild runs, however long a busy machine takes to start it.
    monkeypatch.setattr(process, "time", clock_from(lambda: note.exists() and note.read_text()))
    script.write_text(
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    must_fail(StageError, r"no result after 1 s", run_json, [str(script)], 1, "model.tflite")
    until(partial(has_ended, int(note.read_text())))
