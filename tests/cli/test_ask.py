"""``advisor search`` without options in a terminal asks what matters most."""

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from tests.makers.commands import Advisor, ended
from tests.processes import PATIENCE_S

ANSWERS = (
    ("Task:", "image-clasification"),
    ("Task:", ""),
    ("Folder of labelled images", "my photos"),
    ("Latency limit", "30ms"),
    ("Device to ship on", "pixel-4"),
)
"""Questions in their order, and what is typed."""


@pytest.fixture(scope="module")
def shown(starts_processes: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a terminal shows when all questions are answered, the first one wrongly."""
    folder = tmp_path_factory.mktemp("asked")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(folder / "cache"), "NO_COLOR": "1", "COLUMNS": "120"}
    command = [sys.executable, "-m", "advisor", "search"]
    shown, unanswered = "", list(ANSWERS)
    start, end = 0, time.monotonic() + PATIENCE_S
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment) as process:
        os.close(theirs)
        while time.monotonic() < end:
            if not select.select([ours], [], [], 0.2)[0]:
                continue
            try:
                shown += os.read(ours, 4096).decode(errors="replace")
            except OSError:  # the command has ended
                break
            if unanswered and unanswered[0][0] in shown[start:]:
                os.write(ours, f"{unanswered.pop(0)[1]}\n".encode())
                start = len(shown)
        process.kill()
    os.close(ours)
    return shown


def test_what_matters_most_is_asked_at_once_again_where_the_answer_is_unknown_and_the_command_is_shown(
    shown: str,
) -> None:
    same = "The same without questions: advisor search --data 'my photos' --budget 30ms --device pixel-4"
    assert same in " ".join(shown.split())
    assert re.search(r"error: --data: .*my photos", shown)
    before, error, after = shown.partition("unknown task 'image-clasification' (did you mean 'image-classification'?)")
    assert error
    assert "Folder of labelled images" not in before
    assert after.split("Folder of labelled images")[0].count("Task:") == 1


def test_without_a_terminal_nothing_is_asked_and_no_search_without_a_limit_begins(quick_advisor: Advisor) -> None:
    said = ended(quick_advisor("search"), 2)
    assert "Task:" not in said.err
    assert "give a limit: --budget 50ms --effort standard" in said.err


@pytest.mark.parametrize(("limit", "applies"), [((), True), (("--budget", "50ms"), False)])
def test_without_a_terminal_a_search_without_a_limit_gets_one(
    quick_advisor: Advisor, limit: tuple[str, ...], applies: bool
) -> None:
    said = ended(quick_advisor("search", "--data", "missing", *limit), 2)
    assert ("neither --budget nor --time-limit is given: --effort standard applies (10min)" in said.err) is applies
