"""Commands of this program as child processes: a re-evaluation in the background, and the bundle of a run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.core.errors import ExitCode, StageError, UsageError, last_line

ANSWERED = (ExitCode.OK, ExitCode.UNSATISFIED, ExitCode.CHANGED)
"""Exit codes of commands that printed an answer."""

LIMIT_S = 3600.0
"""Seconds after which a command is stopped."""

LINES = 200
"""Lines of progress that are kept."""


def _start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "advisor", *arguments, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", "ADVISOR_PROGRESS": "lines"},
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C goes to the server, which ends its children
    )


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


@dataclass
class ReevaluationJob:
    """A re-evaluation.

    Attributes:
        device: the device that it is for; empty for this machine.
        lines: what the command said on standard error.
        ended: it has ended.
        answer: the document that it printed; empty while it runs, and if it failed.
    """

    device: str
    lines: list[str] = field(default_factory=list)
    ended: bool = False
    answer: Mapping[str, Any] = field(default_factory=dict)


class Reevaluations:
    """The last re-evaluation of each run. One runs at a time, because they measure."""

    def __init__(self) -> None:
        self._jobs: dict[str, ReevaluationJob] = {}
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def of(self, run: str) -> ReevaluationJob | None:
        """Return the last re-evaluation of a run by its name."""
        return self._jobs.get(run)

    def start(self, run: Path, device: str) -> None:
        """Start a re-evaluation of a run, for a device if one is named.

        Raises:
            UsageError: another one is running.
        """
        with self._lock:
            busy = next((name for name, job in self._jobs.items() if not job.ended), "")
            if busy:
                raise UsageError(f"'{busy}' is being re-evaluated", "wait until this has ended")
            job = self._jobs[run.name] = ReevaluationJob(device)
            options = [f"--device={device}"] if device else []
            self._process = _start(["reevaluate", str(run), *options])
        threading.Thread(target=self._follow, args=(self._process, job), daemon=True).start()

    def close(self) -> None:
        """End the command that runs."""
        if self._process is not None and self._process.poll() is None:
            _end(self._process)

    def _follow(self, process: subprocess.Popen[str], job: ReevaluationJob) -> None:
        timer = threading.Timer(LIMIT_S, _end, (process,))
        timer.start()
        printed: list[str] = []
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        reader = threading.Thread(target=lambda pipe: printed.append(pipe.read()), args=(process.stdout,))
        reader.start()
        for line in process.stderr:
            job.lines[:] = [*job.lines, line.rstrip()][-LINES:]
        reader.join()
        timer.cancel()
        if process.wait() in ANSWERED:
            with contextlib.suppress(ValueError):
                job.answer = json.loads("".join(printed))
        elif process.returncode < 0:
            job.lines.append("stopped")
        job.ended = True


def bundle(run: Path, folder: Path) -> Path:
    """Export the pick of a run to ``folder``, and return the bundle as a zip file.

    Raises:
        StageError: the command refused, or took too long.
    """
    process = _start(["export", str(run), "--to", str(folder / "bundle")])
    try:
        _, said = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        _end(process)
        raise StageError("the export took too long", "try it on the command line: advisor export") from None
    if process.returncode != ExitCode.OK:
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        raise StageError(errors[-1].removeprefix("error: ") if errors else last_line(said) or "the export failed")
    return Path(shutil.make_archive(str(folder / run.name), "zip", folder / "bundle"))
