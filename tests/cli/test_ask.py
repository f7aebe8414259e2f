"""In a terminal, a search without options asks what matters most, and images that read in two ways are a question."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from tests.makers.commands import Advisor, ended
from tests.processes import PATIENCE_S
from tests.tables import read_table, with_cases

ANSWERS = read_table(__file__, "texts.yaml")["answers"]
"""Questions in their order, and what is typed."""


def answered(folder: Path, arguments: Sequence[str], answers: Sequence[tuple[str, str]]) -> str:
    """Return what a terminal shows of a command whose questions are answered in their order."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(folder / "cache"), "NO_COLOR": "1", "COLUMNS": "120"}
    command = [sys.executable, "-m", "advisor", *arguments]
    shown, unanswered = "", list(answers)
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
    return " ".join(shown.split())


@pytest.fixture(scope="module")
def shown(starts_processes: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a terminal shows when all questions are answered, the first one wrongly."""
    return answered(tmp_path_factory.mktemp("asked"), ["search"], ANSWERS)


def test_what_matters_most_is_asked_at_once_again_where_the_answer_is_unknown_and_the_command_shown(shown: str) -> None:
    same = "The same without questions: advisor search --data 'my photos' --budget 30ms --device pixel-4"
    assert same in shown
    assert re.search(r"error: --data: .*my photos", shown)
    before, error, after = shown.partition("unknown task 'image-clasification' (did you mean 'image-classification'?)")
    assert error
    assert "Folder of labelled images" not in before
    assert after.split("Folder of labelled images")[0].count("Task:") == 1


@pytest.mark.integration
@with_cases
def test_folders_that_read_in_two_ways_are_one_question(tmp_path: Path, number: str, end: str) -> None:
    for light, name in product(("day", "night"), ("cat", "dog")):
        (tmp_path / "photos" / light / name).mkdir(parents=True)
        (tmp_path / "photos" / light / name / "1.jpg").touch()
    questions = [("or 0 to stop", "3"), ("or 0 to stop", number)]
    shown = answered(tmp_path, ["data", "check", "photos"], questions)
    question, _, answer = shown.partition("'3' is no number from 0 to 2")
    assert "--data 'photos/*' The model tells the upper folders 'day', 'night' apart." in question
    assert end in answer


def test_without_a_terminal_nothing_is_asked_and_no_search_without_a_limit_begins(quick_advisor: Advisor) -> None:
    said = ended(quick_advisor("search"), 2)
    assert "Task:" not in said.err
    assert "give your images and a limit: --data photos --budget 50ms" in said.err


@pytest.mark.parametrize(("limit", "applies"), [((), True), (("--budget", "50ms"), False)])
def test_a_search_elsewhere_gets_a_limit(quick_advisor: Advisor, limit: tuple[str, ...], applies: bool) -> None:
    said = ended(quick_advisor("search", "--data", "missing", *limit), 2)
    assert ("neither --budget nor --time-limit is given: --effort standard applies (10min)" in said.err) is applies
