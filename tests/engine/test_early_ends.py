"""Searches that are ended in their first seconds: each can be continued, or nothing was begun."""

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.core.evaluation import Status
from advisor.store import RunFolder
from tests.engine.test_interruptions import OPTIONS, started
from tests.makers.searches import search

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BETWEEN_S = 0.2

IGNORED = re.compile(r"^Exception ignored in: .*?^KeyboardInterrupt: *\n", re.DOTALL | re.MULTILINE)
"""What Python itself writes about an interrupt that hits the end of an import."""


def interrupt_twice(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    time.sleep(BETWEEN_S)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)


def terminate(process: subprocess.Popen[str]) -> None:
    process.terminate()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()


ENDS = (interrupt_twice, terminate, kill)


def ended(
    process: subprocess.Popen[str], when: Callable[[], bool], end: Callable[[subprocess.Popen[str]], None]
) -> str:
    """End a search at a moment and return what it wrote to standard error."""
    while process.poll() is None and not when():
        time.sleep(0.005)
    if process.poll() is None:
        end(process)
    _, err = process.communicate(timeout=120)
    return err


def goes_on(cache: Path, out: Path, err: str, count: int) -> None:
    """Assert that an ended search can be continued to its answer, or that nothing was begun."""
    assert "Traceback" not in IGNORED.sub("", err)
    assert "internal error" not in err
    if not (out / "latest").exists():
        return
    run = (out / "latest").resolve()
    resumed = search(cache, out, "--resume", str(run))
    if not (run / "request.yaml").exists():
        assert resumed.returncode == 2
        assert "was ended before it began" in resumed.stderr
        return
    assert resumed.returncode == 0, resumed.stderr
    assert [e.status for e in RunFolder(run).evaluations()] == [Status.OK] * count


@pytest.mark.parametrize("end", ENDS)
def test_a_search_that_is_ended_at_any_moment_goes_on(
    converted: Path, tmp_path: Path, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    for moment in range(1, 25):
        out = tmp_path / f"runs-{moment}"
        until = time.monotonic() + 0.25 * moment
        process = started(converted, out, *OPTIONS)
        goes_on(converted, out, ended(process, lambda until=until: time.monotonic() > until, end), 2)
