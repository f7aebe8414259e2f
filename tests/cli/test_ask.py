"""``advisor search`` without options in a terminal asks what matters most."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.makers.commands import Advisor, ended

pytestmark = pytest.mark.usefixtures("starts_processes")


def talked(cwd: Path, answers: dict[str, str]) -> str:
    """What a terminal shows when each question that contains a key gets its answer."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(cwd / "cache"), "NO_COLOR": "1", "COLUMNS": "120"}
    command = [sys.executable, "-m", "advisor", "search"]
    shown, left, limit = "", dict(answers), time.monotonic() + 120
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment) as process:
        os.close(theirs)
        while time.monotonic() < limit:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 4096).decode(errors="replace")
                except OSError:  # the other end is closed
                    break
            for question in [one for one in left if one in shown]:
                os.write(ours, f"{left.pop(question)}\n".encode())
        process.kill()
    os.close(ours)
    return shown


def test_what_matters_most_is_asked_and_the_command_is_shown(tmp_path: Path) -> None:
    shown = talked(
        tmp_path,
        {
            "Task:": "",
            "Folder of labelled images": "my photos",
            "Latency limit": "30ms",
            "Device to ship on": "pixel-4",
        },
    )
    same = "The same without questions: advisor search --data 'my photos' --budget 30ms --device pixel-4"
    assert same in " ".join(shown.split())
    assert re.search(r"error: --data: .*my photos", shown)


def test_an_unknown_task_is_asked_again_at_once(tmp_path: Path) -> None:
    shown = talked(tmp_path, {"Task:": "image-clasification", "[image-classification]: \r\n": ""})
    assert "unknown task 'image-clasification' (did you mean 'image-classification'?)" in shown
    assert "Folder of labelled images" not in shown.partition("unknown task")[0]


def test_without_a_terminal_nothing_is_asked_and_no_search_without_a_limit_begins(advisor: Advisor) -> None:
    said = ended(advisor("search"), 2)
    assert "Task:" not in said.err
    assert "give a limit: --budget 50ms --effort standard" in said.err


@pytest.mark.parametrize(
    ("limit", "applies"), [((), True), (("--budget", "50ms"), False), (("--effort", "quick"), False)]
)
def test_without_a_terminal_a_search_without_a_limit_gets_one(
    advisor: Advisor, limit: tuple[str, ...], applies: bool
) -> None:
    said = ended(advisor("search", "--data", "missing", *limit), 2)
    assert ("neither --budget nor --time-limit is given: --effort standard applies (10min)" in said.err) is applies
