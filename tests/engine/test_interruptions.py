"""Searches that are disturbed: nothing but what was in flight is lost."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from advisor.core import Evaluation
from advisor.reporting import RunView
from advisor.store import RunFolder
from tests.makers.searches import FORMS, SMALLEST, command, environment, search
from tests.processes import children_with

pytestmark = pytest.mark.integration

ONE = (
    "--candidates", SMALLEST, "--budget", "50ms", "--compressions", "float32", "--threads", "1", "--workers", "1",
)  # fmt: skip
"""One configuration; with one worker, no child imports TensorFlow for work that may come."""

OPTIONS = (*ONE, "--compressions", FORMS)


def started(
    cache: Path, out: Path, *arguments: str, interrupts: Any = signal.default_int_handler, temporary: Path | None = None
) -> subprocess.Popen[str]:
    own = {} if temporary is None else {"TMPDIR": str(temporary)}
    return subprocess.Popen(
        command("--out", str(out), *arguments),
        env={**environment(cache), **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that runs its jobs in the background has them ignore interrupts, and they hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, interrupts),
    )


def until(process: subprocess.Popen[str], seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not seen():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return children_with("advisor.isolation._child", process.pid)


def lines(out: Path) -> int:
    file = out / "latest" / "evaluations.jsonl"
    return len(file.read_text().splitlines()) if file.is_file() else 0


def resumed(cache: Path, run: Path, *arguments: str, code: int = 0) -> str:
    """Go on with a run and return what the command printed."""
    done = search(cache, run.parent, "--resume", str(run), *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_search_that_a_scheduler_ends_answers_and_stays_locked_meanwhile(compressed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = started(compressed, out, *ONE, interrupts=signal.SIG_IGN)
    until(process, lambda: bool(children_with("isolation/agent.py", process.pid)))  # a file is being timed
    run = (out / "latest").resolve()
    process.send_signal(signal.SIGSTOP)
    second = search(compressed, out, "--resume", str(run))
    process.terminate()  # before it goes on: it would end by itself if this process had to wait for a processor
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=120)
    assert second.returncode == 2
    assert f"in use by process {process.pid}" in second.stderr
    assert process.returncode == 130, err
    assert "--resume" in err
    assert (run / "report.html").is_file()


def test_a_killed_search_leaves_a_true_report_and_resumes_without_loss(compressed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = started(compressed, out, *ONE, "--compressions", f"{FORMS},float16", "--threads", "1,2")
    until(process, lambda: told(out / "latest") >= 1)
    process.kill()
    process.wait()
    run = (out / "latest").resolve()
    recommendation = json.loads((run / "recommendation.json").read_text())
    known = {e.configuration.key: e for e in RunFolder(run).evaluations()}
    assert recommendation["unfinished"]["running"]
    assert 1 <= told(run) <= recommendation["unfinished"]["evaluated"] <= len(known) < 6
    pick = Evaluation.from_json(recommendation["pick"])
    assert known[pick.configuration.key].latency == pick.latency
    assert (run / pick.artefact).is_file()
    assert RunView.load(RunFolder(run)).unfinished_sentence.startswith("The search has not ended, ")
    assert "Pick: " in resumed(compressed, run, "--max-trials", "5")
    after = {e.configuration.key: e for e in RunFolder(run).evaluations()}
    assert {key: after[key] for key in known} == known
    assert lines(out) == len(after) == 5, "those before the kill count"


def told(run: Path) -> int:
    """Return how many configurations the page on the disk counts, 0 without a page. The page is written last."""
    page = (run / "report.html").read_text() if (run / "report.html").is_file() else ""
    found = re.search(r"Search is running, (\d+) of 6 configurations have results", page)
    assert bool(found) == bool(page)
    assert bool(page) == page.rstrip().endswith("</html>")
    return int(found.group(1)) if found else 0
