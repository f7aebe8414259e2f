"""The ``advisor`` command: register the commands and turn errors into exit codes."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

import typer

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
from advisor.version import __version__

HELP_WIDTH = 120
"""Largest width of the help in columns: longer lines are hard to read."""

app = typer.Typer(
    name="advisor",
    help="Chooses, retrains and compresses the image model to ship on phones and small devices.",
    epilog="Exit codes: 0 done, 2 wrong usage or data (nothing spent), 3 nothing meets the budget or the result is "
    "incomplete, 4 the recommendation changed, 1 internal error, 130 interrupted (state saved).",
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
    """Run the command line. An error of the user prints a message and a hint, never a traceback."""
    # SIGTERM must not be forwarded as SIGINT: a shell starts background jobs with SIGINT ignored.
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
            "this is a bug in advisor; run again with ADVISOR_DEBUG=1 for the traceback, and please report it",
        )
        sys.exit(ExitCode.INTERNAL_ERROR)
    sys.exit(ExitCode.OK)


def _complain(message: str, hint: str) -> None:
    typer.secho(f"error: {message}", err=True, fg="red" if _coloured() else None)
    if hint:
        typer.secho(f"hint:  {hint}", err=True)


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
