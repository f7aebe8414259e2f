"""Output that is the same for all commands: JSON, the answer of a run, warnings and progress.

The answer goes to standard output, everything else to standard error, so that a program can read
the first alone. ``--quiet`` (:data:`QUIET`) leaves out progress and notes.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Never

import typer

from advisor.core import AdvisorError, ExitCode, visible, without_password

if TYPE_CHECKING:
    from tqdm import tqdm

    from advisor.reporting import AnswerRows, RunView


QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)
"""``--quiet`` of the running command."""

BEGAN: ContextVar[float | None] = ContextVar("BEGAN", default=None)
"""Begin of the wait that the next progress is about:
the start of the command, or the end of the last that wrote.
"""

WAIT_S = 2.0
"""Seconds after which a log gets a line about a step, and about a wait of several steps."""

EVERY_S = 30.0
"""Seconds after which a log gets a line even if every step is short."""

_OPTION = r"--?[\w-]+(?:[ =][^- ,;:()][^ ,;:()]*)?"
_PATH = r"[^ ,;:()]*[/.][^ ,;:()]+"
COMMAND = re.compile(rf"advisor(?: [a-z-]+){{1,2}}(?: (?:{_OPTION}|\[[^]]*\]|{_PATH}))*")
"""A command inside a sentence with its options, their values and paths:
it is copied, so it stays on one line.
"""

Tell = Callable[[str], None]


def write_sentences(text: str, err: bool = False, colour: str | None = None) -> None:
    """Write lines, on standard error if ``err``;
    on a terminal, long ones are folded between words.
    """
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(fold_line(line, width) for line in text.split("\n"))
    typer.secho(text, err=err, fg=colour)


def fold_line(line: str, width: int) -> str:
    """Return a line that is folded between words where it is too wide; commands stay whole."""
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    # The wrapper breaks at blanks, so those inside a command are hidden from it.
    unbroken = COMMAND.sub(lambda command: command[0].replace(" ", "\0"), line)
    folder = textwrap.TextWrapper(
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return folder.fill(unbroken).replace("\0", " ")


def note(text: str) -> None:
    """Write a line on standard error that is neither the answer nor an error."""
    if not QUIET.get():
        write_sentences(visible(text), err=True)


@contextmanager
def progress(first: str) -> Iterator[Tell]:
    """Give a function that shows a line about the present step; each line replaces the last.

    If standard error is no terminal, a step gets a line once it has lasted :data:`WAIT_S` seconds.
    With ``ADVISOR_PROGRESS=lines``, every step gets its line at once.
    """
    if QUIET.get():
        yield lambda _text: None
    elif os.environ.get("ADVISOR_PROGRESS") == "lines":
        yield note
    elif not sys.stderr.isatty():
        steps = SlowSteps(first, WAIT_S, EVERY_S)
        try:
            with steps:
                yield steps.tell
        finally:
            # A wait without a line goes on: two of almost WAIT_S would be silent for both.
            if steps.has_written:
                BEGAN.set(time.monotonic())
    else:
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status(escape(first)) as status:
            yield lambda text: status.update(escape(text))


class SlowSteps:
    """Writes a line about a wait that takes long, about each long step in it,
    and now and then about a short one.

    It is a context manager: at its end nothing more is written. The first step began with the
    wait, see :data:`BEGAN`. A step, or the whole wait, lasts ``wait_s`` seconds before there is a
    line; ``every_s`` seconds after the last line even a short step gets one.
    """

    def __init__(self, first: str, wait_s: float, every_s: float) -> None:
        self._wait_s = wait_s
        self._every_s = every_s
        self._changed = threading.Condition()
        self._step = self._told = first
        self._since = BEGAN.get() or time.monotonic()
        # As if a line had been written so long ago that the next one is due after ``wait_s``.
        self._written = self._since + wait_s - every_s
        self.has_written = False  # whether there was a line
        self._ended = False

    def __enter__(self) -> SlowSteps:
        # A daemon, so that an error on the way to the end cannot keep the process alive.
        threading.Thread(target=self._write_late_steps, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def tell(self, step: str) -> None:
        """Replace the present step."""
        with self._changed:
            if step != self._told:
                self._step = self._told = step
                self._since = time.monotonic()
                self._changed.notify()

    def _write_late_steps(self) -> None:
        with self._changed:
            while not self._ended:
                if not self._step:
                    self._changed.wait()
                    continue
                due = min(
                    self._since + self._wait_s, max(self._since, self._written + self._every_s)
                )
                left = due - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                note(self._step)
                self._step = ""
                self._written = time.monotonic()
                self.has_written = True


@contextmanager
def download_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Give a function that moves a file's bar: name, bytes so far, and all bytes if known.
    A log gets lines instead.
    """
    if QUIET.get() or not sys.stderr.isatty():
        with progress("looking up the weights") as tell:
            yield lambda name, _done, _total: tell(f"fetching {name}")
        return
    from tqdm import tqdm

    bars: dict[str, tqdm[Never]] = {}
    lock = threading.Lock()

    def advance(name: str, done: int, total: int | None) -> None:
        with lock:
            if name not in bars:
                bars[name] = tqdm(
                    desc=name, total=total, unit="B", unit_scale=True, position=len(bars)
                )
            bar = bars[name]
            bar.total = total
            bar.update(done - bar.n)

    try:
        yield advance
    finally:
        for bar in bars.values():
            bar.close()


def print_json(document: Mapping[str, object]) -> None:
    """Write a document to standard output as ASCII, which no terminal can break;
    a number that is not finite is null.

    A reader that closed the pipe has all that it wants:
    the command goes on and ends with its own exit code.
    """
    import json

    from advisor.reporting import finite

    text = json.dumps(finite(document), indent=1, allow_nan=False)
    try:
        typer.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The descriptor, because Python flushes the stream once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_document(**entries: object) -> None:
    """Write a document of the first version of its schema."""
    print_json({"schema_version": 1, **entries})


def show_answer(view: RunView, as_json: bool, rows: AnswerRows, brief: bool = False) -> None:
    """Write the answer of a run: for programs the content of ``recommendation.json``,
    else its lines and a table.
    """
    from advisor.reporting import print_answer, recommendation

    if as_json:
        print_json(recommendation(view, rows))
    else:
        print_answer(view, rows=rows, brief=brief)


def check_place(place: str | None) -> None:
    """Refuse a place of ``--log-to`` that cannot be used, before any work."""
    if place:
        from advisor.api import experiment_log

        experiment_log(place)


def log_run_to(run: Path, place: str | None) -> None:
    """Log a run to the place of ``--log-to``, if there is one."""
    if place is None:
        return
    from advisor import api

    shown = without_password(place)
    try:
        with progress(f"logging to {shown}"):
            logged = api.log_to(run, place)
        note(f"logged to {shown} as {logged}")
    except AdvisorError as error:  # the answer is there: only its copy is missing
        write_sentences(f"error: {error.message}\nhint:  {error.hint}", err=True)
        raise typer.Exit(ExitCode.UNSATISFIED) from error


def warn_of_problems(run: str, artefacts: bool = False) -> None:
    """Write on standard error which files of a run folder are damaged;
    the command continues with the others.
    """
    from advisor import api

    for problem in api.check_run(run, artefacts=artefacts):
        write_sentences(visible(f"warning: {run}: {problem}"), err=True)
