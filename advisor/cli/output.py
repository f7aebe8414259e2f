"""Output that is the same for all commands: JSON, progress and warnings on standard error."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Never

import typer

from advisor.core.errors import AdvisorError, ExitCode
from advisor.core.escape import visible

if TYPE_CHECKING:
    from advisor.reporting.view import RunView


def print_json(document: Mapping[str, object]) -> None:
    """Write a document to standard output as ASCII, which no terminal or file name can break.

    A reader that closed the pipe has all that it wants: the command goes on and ends with its own exit code.

    Raises:
        ValueError: a number is not finite; JSON has no form for it.
    """
    import json

    text = json.dumps(document, indent=1, allow_nan=False)
    try:
        typer.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_answer(view: RunView, as_json: bool) -> None:
    """Write the answer of a run: for programs the content of ``recommendation.json``, else a table."""
    if as_json:
        from advisor.reporting.files import recommendation
        from advisor.reporting.text import finite

        print_json(finite(recommendation(view)))
        return
    from advisor.reporting.table import print_answer

    print_answer(view)


def check_place(place: str | None) -> None:
    """Refuse a place of ``--log-to`` that cannot be used, before any work.

    Raises:
        UsageError: an unknown place, or its package is not installed.
    """
    if place:
        from advisor.reporting.experiment_log import tracking_uri

        tracking_uri(place)


def log_run_to(run: Path, place: str | None) -> None:
    """Log a run to the place of ``--log-to``, if there is one."""
    if place is None:
        return
    from advisor import api

    try:
        typer.echo(f"logged to {place} as {api.log_to(run, place)}", err=True)
    except AdvisorError as error:  # the answer is there: only its copy is missing
        typer.echo(f"error: {error.message}\nhint:  {error.hint}", err=True)
        raise typer.Exit(ExitCode.UNSATISFIED) from error


def warn_of_problems(run: str, artefacts: bool = False) -> None:
    """Write on standard error which files of a run folder are damaged; the command continues with the others."""
    from advisor import api

    for problem in api.check_run(run, artefacts=artefacts):
        typer.echo(visible(f"warning: {run}: {problem}"), err=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Give a function that shows a line about the present step; each line replaces the last.

    If standard error is no terminal, nothing is shown, or with ``ADVISOR_PROGRESS=lines`` each line stays.
    """
    if os.environ.get("ADVISOR_PROGRESS") == "lines":
        yield lambda text: typer.echo(visible(text), err=True)
        return
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(escape(text))


@contextmanager
def download_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Give a function that moves a file's bar: name, bytes so far, and all bytes if their number is known."""
    from tqdm import tqdm

    bars: dict[str, tqdm[Never]] = {}
    lock = threading.Lock()

    def advance(name: str, done: int, total: int | None) -> None:
        with lock:
            if name not in bars:
                bars[name] = tqdm(desc=name, total=total, unit="B", unit_scale=True, disable=None, position=len(bars))
            bar = bars[name]
            bar.total = total
            bar.update(done - bar.n)

    try:
        yield advance
    finally:
        for bar in bars.values():
            bar.close()
