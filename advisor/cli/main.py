"""The ``advisor`` command: registers the commands and turns errors into exit codes."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

import typer

from advisor import __version__
from advisor.cli import (
    benchmark,
    catalog,
    compare,
    compress,
    data,
    devices,
    doctor,
    export,
    plan,
    profile,
    reevaluate,
    report,
    search,
)
from advisor.core.errors import AdvisorError
from advisor.core.exits import ExitCode

HELP_WIDTH = 120
"""Columns that help fills at most: longer lines are hard to read."""

app = typer.Typer(
    name="advisor",
    help="Chooses, retrains and compresses the image model to ship on phones and small devices.",
    epilog="Exit codes: 0 done, 2 wrong usage or data (nothing spent), 3 nothing meets the budget or not all could be "
    "had, 4 the recommendation changed, 1 internal error, 130 interrupted (state saved).",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": HELP_WIDTH},
)


@app.callback(invoke_without_command=True)
def version(
    show: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),
) -> None:
    if show:
        typer.echo(f"advisor {__version__}")
        raise typer.Exit


search.register(app)
plan.register(app)
benchmark.register(app)
profile.register(app)
compress.register(app)
catalog.register(app)
devices.register(app)
data.register(app)
report.register(app)
export.register(app)
compare.register(app)
reevaluate.register(app)
doctor.register(app)


def main() -> NoReturn:
    """Run the command line; a user's mistake is a message and a hint, never a traceback."""
    # Not by way of SIGINT: a shell has what it starts in the background ignore that one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except AdvisorError as error:
        _complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except Exception as error:
        if os.environ.get("ADVISOR_DEBUG"):
            raise
        _complain(
            f"internal error: {type(error).__name__}: {error}",
            "this is a fault of advisor; run again with ADVISOR_DEBUG=1 for the place, and please report it",
        )
        sys.exit(ExitCode.INTERNAL_ERROR)
    sys.exit(ExitCode.OK)


def _complain(message: str, hint: str) -> None:
    typer.secho(f"error: {message}", err=True, fg="red" if _coloured() else None)
    if hint:
        typer.secho(f"hint:  {hint}", err=True)


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
