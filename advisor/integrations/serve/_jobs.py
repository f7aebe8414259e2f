"""Commands of advisor that pages start in other processes: a re-evaluation and an export.

``_pages.py`` starts them and shows their lines. A command gets ``--json``, and its exit code says
whether it answered (``core/_errors.py``).
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.core import ExitCode, StageError, UsageError, last_line
from advisor.isolation import ChildProcess, TimedOut, run_program

ANSWERED = (ExitCode.OK, ExitCode.UNSATISFIED, ExitCode.CHANGED)
"""Exit codes of commands that printed an answer."""

LIMIT_S = 3600.0
"""Seconds after which a command is stopped."""

LINES = 200
"""Lines of progress that are kept."""


def make_command(arguments: Sequence[str]) -> list[str]:
    """Return the words that start a command of advisor, which prints a document."""
    # With -P, no module comes from the current folder, where others may have put one.
    return [sys.executable, "-P", "-m", "advisor", *arguments, "--json"]


def make_environment() -> dict[str, str]:
    """Return the environment of such a command."""
    # A page shows the lines as text, where escape sequences of a terminal would be visible.
    return {**os.environ, "NO_COLOR": "1", "ADVISOR_PROGRESS": "lines"}


@dataclass
class ReevaluationJob:
    """A re-evaluation."""

    device: str  #: the device that it is for; empty for this machine
    lines: list[str] = field(default_factory=list)  #: what the command said on standard error
    ended: bool = False  #: it has ended
    #: the document that it printed; empty while it runs, and if it failed.
    answer: Mapping[str, Any] = field(default_factory=dict)


class Reevaluations:
    """The last re-evaluation of each run. One runs at a time, because they measure."""

    def __init__(self) -> None:
        self._jobs: dict[str, ReevaluationJob] = {}
        self._process: ChildProcess | None = None
        self._lock = threading.Lock()

    def of(self, run: str) -> ReevaluationJob | None:
        """Return the last re-evaluation of a run by its name."""
        return self._jobs.get(run)

    def start(self, run: Path, device: str) -> None:
        """Start a re-evaluation of a run, for a device if one is named.

        Raises:
            UsageError: another one is running, or the name is no text for a command.
        """
        with self._lock:
            for name, earlier_job in self._jobs.items():
                if not earlier_job.ended:
                    hint = "wait until this has ended"
                    raise UsageError(f"'{name}' is being re-evaluated", hint)
            # Joined by "=", so that a name from a form cannot become another option.
            options = [f"--device={device}"] if device else []
            try:
                command = make_command(["reevaluate", str(run), *options])
                self._process = ChildProcess(command, environment=make_environment())
            # A NUL character in a path raises it.
            except ValueError as error:
                raise UsageError(
                    f"{device!a} is not the name of a device ({error})", "choose one of the list"
                ) from None
            job = ReevaluationJob(device)
            self._jobs[run.name] = job
        threading.Thread(target=self._follow, args=(self._process, job), daemon=True).start()

    def close(self) -> None:
        """End the command that runs."""
        if self._process is not None and self._process.status is None:
            self._process.send(signal.SIGTERM)

    def _follow(self, process: ChildProcess, job: ReevaluationJob) -> None:
        """Keep in a job what its command says, until the command ends."""
        timer = threading.Timer(LIMIT_S, process.send, (signal.SIGTERM,))
        timer.start()
        printed: list[bytes] = []
        stdout = process.popen.stdout
        stderr = process.popen.stderr
        assert stdout is not None, "it is a pipe"
        assert stderr is not None, "it is a pipe"
        # Both pipes are read at once: a command that fills one of them would wait without end.
        reader = threading.Thread(target=lambda: printed.append(stdout.read()))
        reader.start()
        for line in stderr:
            job.lines[:] = [*job.lines, line.decode(errors="replace").rstrip()][-LINES:]
        reader.join()
        timer.cancel()
        status = process.popen.wait()
        if status in ANSWERED:
            with contextlib.suppress(ValueError):
                job.answer = json.loads(b"".join(printed))
        elif status < 0:
            job.lines.append("stopped")
        # Last: a page that sees the end also shows the answer.
        job.ended = True


def zip_bundle(run: Path, folder: Path) -> Path:
    """Export the pick of a run to ``folder``, and return the bundle as a zip file.

    Raises:
        StageError: the export is refused, or takes too long.
    """
    command = make_command(["export", str(run), "--to", str(folder / "bundle")])
    try:
        # In another process, because files of a run can crash or hang the runtime (decision 0008).
        done = run_program(command, timeout_s=LIMIT_S, environment=make_environment())
    except TimedOut:
        raise StageError(
            "the export took too long",
            f"try it on the command line: advisor export {shlex.quote(str(run))} --to bundle",
        ) from None
    if done.status != ExitCode.OK:
        reason = last_line(done.stderr) or "the export failed"
        # Of several errors, the last one ended the command.
        for line in done.stderr.splitlines():
            if line.startswith("error: "):
                reason = line.removeprefix("error: ")
        raise StageError(reason)
    return Path(shutil.make_archive(str(folder / run.name), "zip", folder / "bundle"))
