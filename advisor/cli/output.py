"""Output that is the same for all commands: JSON, the answer of a run, warnings on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from advisor.cli.progress import note, progress
from advisor.core.errors import AdvisorError, ExitCode
from advisor.core.escape import visible

if TYPE_CHECKING:
    from advisor.reporting.frames import AnswerRows
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


def show_answer(view: RunView, as_json: bool, rows: AnswerRows) -> None:
    """Write the answer of a run: for programs the content of ``recommendation.json``, else a table."""
    if as_json:
        from advisor.reporting.files import recommendation
        from advisor.reporting.text import finite

        print_json(finite(recommendation(view, rows)))
        return
    from advisor.reporting.answer import print_answer

    print_answer(view, rows=rows)


def check_place(place: str | None) -> None:
    """Refuse a place of ``--log-to`` that cannot be used, before any work.

    Raises:
        UsageError: an unknown place, or its package is not installed.
    """
    if place:
        from advisor.api.answers import experiment_log

        experiment_log(place)


def log_run_to(run: Path, place: str | None) -> None:
    """Log a run to the place of ``--log-to``, if there is one."""
    if place is None:
        return
    from advisor import api

    try:
        with progress(f"logging to {place}"):
            logged = api.log_to(run, place)
        note(f"logged to {place} as {logged}")
    except AdvisorError as error:  # the answer is there: only its copy is missing
        typer.echo(f"error: {error.message}\nhint:  {error.hint}", err=True)
        raise typer.Exit(ExitCode.UNSATISFIED) from error


def warn_of_problems(run: str, artefacts: bool = False) -> None:
    """Write on standard error which files of a run folder are damaged; the command continues with the others."""
    from advisor import api

    for problem in api.check_run(run, artefacts=artefacts):
        typer.echo(visible(f"warning: {run}: {problem}"), err=True)
