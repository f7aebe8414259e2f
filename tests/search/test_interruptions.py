"""Searches that are disturbed: nothing but what was in flight is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from advisor.core.evaluation import Status
from advisor.store import RunFolder
from tests.search.conftest import SMALLEST, command, environment

OPTIONS = ("--candidates", SMALLEST, "--budget", "50ms", "--compressions", "float32,float16", "--threads", "1")


def started(cache: Path, out: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("--out", str(out), *arguments),
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until(process: subprocess.Popen[str], seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not seen():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    found = psutil.Process(process.pid).children(recursive=True)
    return [child for child in found if "advisor.isolation.child" in " ".join(child.cmdline())]


def lines(out: Path) -> int:
    file = out / "latest" / "evaluations.jsonl"
    return len(file.read_text().splitlines()) if file.is_file() else 0


def test_a_child_that_is_killed_is_a_failed_row_with_its_reason(empty_results: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = started(empty_results, out, *OPTIONS)
    until(process, lambda: bool(children(process)))
    children(process)[0].kill()
    process.communicate(timeout=300)
    evaluations = RunFolder((out / "latest").resolve()).evaluations()
    assert process.returncode == 3
    assert {e.status for e in evaluations} == {Status.FAILED}
    assert all("SIGKILL" in e.reason and e.stage == "compress" for e in evaluations)


def test_an_interrupt_keeps_what_is_done_and_resume_goes_on(empty_results: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = started(empty_results, out, *OPTIONS)
    until(process, lambda: bool(children(process)))
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "--resume" in err
    run = (out / "latest").resolve()
    assert (run / "report.html").is_file()
    resumed = started(empty_results, out, "--resume", str(run))
    out_text, err = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, err
    assert "Pick: " in out_text
    assert lines(out) == 2


def test_a_killed_search_is_resumed_without_losing_or_repeating_an_evaluation(
    empty_results: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    process = started(empty_results, out, *OPTIONS)
    until(process, lambda: lines(out) >= 1)
    process.kill()
    process.wait()
    before = lines(out)
    resumed = started(empty_results, out, "--resume", str((out / "latest").resolve()))
    _, err = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, err
    run = RunFolder((out / "latest").resolve())
    assert before >= 1
    assert lines(out) == len(run.evaluations()) == 2


def test_a_time_limit_ends_with_an_answer(empty_results: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = started(empty_results, out, *OPTIONS, "--time-limit", "1s")
    text, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert "No candidate could be evaluated" in text
