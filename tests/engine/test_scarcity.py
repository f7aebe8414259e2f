"""Searches that are killed or ended, lack memory or time, or share their cache: the same answer as in peace.

``kill -9`` comes at random moments, of the search, of one of its children, or of both. ``ADVISOR_KILLS`` says at how
many (5); ``ADVISOR_KILL_SEED`` which. ``python -m benchmarks kills`` keeps a table of twenty.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from advisor.core import Status
from advisor.store import RunFolder
from benchmarks.killed_searches import Peace, disturbed, figures, hashes, options, undisturbed, using
from tests.engine.test_interruptions import OPTIONS, children, lines, started, until
from tests.makers.searches import search

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

RECIPES = ("float32", "int8", "pruned_50")
"""Forms that are made without images, with images, and by training."""

KILLS = int(os.environ.get("ADVISOR_KILLS", "5"))
SEED = int(os.environ.get("ADVISOR_KILL_SEED", "0"))

SPARE_BYTES = 60_000_000
DAY_S = 24 * 3600
IGNORED = re.compile(r"^Exception ignored in: .*?^KeyboardInterrupt: *\n", re.DOTALL | re.MULTILINE)
"""What Python itself writes about an interrupt that hits the end of an import."""


@pytest.fixture(scope="module")
def peace(warm_cache: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Peace:
    return undisturbed(photos, tmp_path_factory.mktemp("peace"), RECIPES)


def starve(process: subprocess.Popen[str], left_alone: int) -> None:
    """Allow little more memory to each new child than it has; the first ``left_alone`` children are left alone."""
    seen: list[int] = []
    while process.poll() is None:
        for child in children(process):
            with contextlib.suppress(psutil.Error):
                if child.pid not in seen:
                    seen.append(child.pid)
                    limit = child.memory_info().vms + SPARE_BYTES
                    if len(seen) > left_alone:
                        child.rlimit(psutil.RLIMIT_AS, (limit, limit))
        time.sleep(0.02)


def resumed(cache: Path, run: Path, temporary: Path) -> RunFolder:
    process = started(cache, run.parent, "--resume", str(run), temporary=temporary)
    _, err = process.communicate(timeout=600)
    assert process.returncode in (0, 3), err
    return RunFolder(run)


@pytest.mark.parametrize("left_alone", [0, 1, 2, 3])
def test_children_without_memory_are_failed_rows_and_made_good(
    empty_results: Path, peace: Peace, photos: Path, tmp_path: Path, left_alone: int
) -> None:
    out, temporary = tmp_path / "runs", tmp_path / "tmp"
    temporary.mkdir()
    process = started(empty_results, out, *options(photos, RECIPES), temporary=temporary)
    starve(process, left_alone)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 3), err
    assert "Traceback" not in err
    starved = RunFolder((out / "latest").resolve()).evaluations()
    assert all(each.reason for each in starved if each.status is Status.FAILED)
    run = resumed(empty_results, (out / "latest").resolve(), temporary)
    assert figures(run.evaluations()) == figures(peace.run.evaluations())
    assert hashes(run) == hashes(peace.run)
    assert list(temporary.iterdir()) == []
    assert using(temporary) == []


def test_setting_a_clock_back_changes_nothing(empty_results: Path, peace: Peace, photos: Path, tmp_path: Path) -> None:
    """Files of tomorrow are what a clock that is set back leaves."""
    out, temporary = tmp_path / "runs", tmp_path / "tmp"
    temporary.mkdir()
    process = started(empty_results, out, *options(photos, RECIPES), temporary=temporary)
    until(process, lambda: lines(out) >= 1)
    process.kill()
    process.wait()
    for folder in (out, empty_results / "artifacts", temporary):
        tomorrow(folder)
    run = resumed(empty_results, (out / "latest").resolve(), temporary)
    assert figures(run.evaluations()) == figures(peace.run.evaluations())
    assert hashes(run) == hashes(peace.run)
    assert list(temporary.iterdir()) == []


def tomorrow(folder: Path) -> None:
    for file in folder.rglob("*"):
        if not file.is_symlink():
            os.utime(file, (time.time() + DAY_S,) * 2)


@pytest.fixture(scope="module")
def usual(warm_cache: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Peace:
    return undisturbed(photos, tmp_path_factory.mktemp("peace"))


@pytest.mark.parametrize("moment", range(KILLS))
def test_a_kill_changes_nothing_of_the_answer(moment: int, usual: Peace, photos: Path, tmp_path: Path) -> None:
    killed = disturbed(moment, SEED, usual, photos, tmp_path)
    assert killed.code == 0, killed
    assert (killed.lost, killed.twice) == (0, 0)
    assert killed.same_figures
    assert killed.other_files == 0
    assert killed.left == 0
    assert killed.same_front


def interrupt_twice(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)  # which does nothing to a process that has ended


@pytest.mark.parametrize("end", [interrupt_twice, subprocess.Popen.terminate])
def test_an_ended_search_goes_on(converted: Path, tmp_path: Path, end: Callable[[subprocess.Popen[str]], None]) -> None:
    for moment in range(1, 25):
        out = tmp_path / f"runs-{moment}"
        process = started(converted, out, *OPTIONS, "--workers", "2")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.25 * moment)
        end(process)
        _, err = process.communicate(timeout=120)
        assert "Traceback" not in IGNORED.sub("", err)
        assert "internal error" not in err
        if not (out / "latest").exists():
            continue
        run = (out / "latest").resolve()
        again = search(converted, out, "--resume", str(run))
        if (run / "request.yaml").exists():
            assert again.returncode == 0, again.stderr
            assert [e.status for e in RunFolder(run).evaluations()] == [Status.OK] * 2
        else:
            assert again.returncode == 2
            assert "was ended before it began" in again.stderr
