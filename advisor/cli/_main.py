"""The ``advisor`` command: register all commands, and turn errors into messages and exit codes.

``main`` is the entry point of the package. It also has the commands ``doctor`` and ``explain``. An
error of the user shows its message and hint; only ``ADVISOR_DEBUG=1`` shows a traceback. What the
start imports must stay light: it has 0.3 s.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import textwrap
from dataclasses import asdict
from typing import Annotated, NoReturn

import typer

from advisor.cli import _options as options
from advisor.cli._answers import predict, report, runs
from advisor.cli._bundles import export, verify
from advisor.cli._cache import cache_app
from advisor.cli._catalog import cards_app
from advisor.cli._clock import began_with_process
from advisor.cli._comparisons import compare, reevaluate, update
from advisor.cli._devices import devices_app
from advisor.cli._files import benchmark, compress, profile
from advisor.cli._groups import AllCommands, Commands, GroupedCommand, SearchCommand
from advisor.cli._options import AsJson, Filter, Sort, argument
from advisor.cli._output import print_document, progress, write_sentences
from advisor.cli._search import data_app, init, plan, search
from advisor.core import COMMAND_BEGAN, AdvisorError, ExitCode, visible, without_password
from advisor.version import __version__

WIDTH = 90
"""Columns of a text."""

HELP_WIDTH = 120
"""Largest width of the help in columns: longer lines are hard to read."""

LONGEST = 4000
"""Characters of an error message:
all errors of a profile fit, a path of as many characters does not.
"""

MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}
"""The first column of ``advisor doctor``, by the state of a check."""

_SYSTEM_HINTS = {
    errno.ENOENT: "check the path, and that there is room for temporary files (TMPDIR)",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or write to another disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EIO: "check the disk, or write to another one",
    errno.ENOMEM: (
        "free some memory, or raise the limit (ulimit -v); a search goes on with --resume"
    ),
    errno.EROFS: "write to another folder",
    errno.EACCES: "check the permissions, or write to another folder",
    errno.EPERM: "check the permissions, or write to another folder",
    errno.ENOTDIR: "a part of the path is a file: check it",
    errno.EISDIR: "a folder is where a file must be: check the path",
    errno.EEXIST: "a file is where a folder must be: check the path",
    errno.ELOOP: "a link of the path leads to itself: check it",
}

_OUT_OF_MEMORY = f"error: memory ran out\nhint:  {_SYSTEM_HINTS[errno.ENOMEM]}\n".encode()

_NO_MEMORY = (
    "can't start new thread",
    "failed to map segment",
    "without setting an exception",
    "without exception set",
)
"""Texts of the system, its loader of libraries and Python where there is no memory."""


def doctor(
    run: Annotated[
        str | None, argument("RUN", "A run folder to check instead.", options.complete_runs)
    ] = None,
    sort: Sort = "",
    only: Filter = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine for what a search needs: packages, memory, disk, weights, load.
    Or check a run.

    Of a run, every line, file and hash is checked, and accuracies,
    sizes and counts are computed again.

    Exit code 2: a search cannot run because something is missing. 3: something of the run does not
    fit. 0: all is well; there may be warnings.

    Example: advisor doctor runs/latest
    """
    from advisor import api
    from advisor.reporting import Rows

    columns = {"name": "name", "state": "state", "found": "found", "hint": "hint"}
    rows = Rows.of_paths(columns).select(sort, only)
    with progress(f"checking {run or 'this machine'}"):
        checks = api.doctor(run)
    shown = rows.of(checks)
    if as_json:
        print_document(checks=list(map(asdict, shown)))
    else:
        for check in shown:
            typer.echo(f"{MARKS[check.state]}  {check.name:18} {check.found}")
            if check.hint:
                typer.echo(f"{'':29}{check.hint}")
    # What the filter leaves out counts for the exit code, too.
    failed = any(check.state is api.State.FAILED for check in checks)
    if failed and run is not None:
        raise typer.Exit(ExitCode.UNSATISFIED)
    if failed:
        raise typer.Exit(ExitCode.USAGE)


def complete_terms(incomplete: str) -> list[str]:
    """Return the names of terms that begin so, for the completion of a shell."""
    from advisor.reporting import text as glossary

    return [entry.name for entry in glossary.terms() if entry.name.startswith(incomplete)]


def explain(
    term: Annotated[
        list[str] | None, argument("TERM", "The term, such as p90 or hold-out.", complete_terms)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a term of the reports in a few sentences.
    Without a term, list those that are explained.

    Example: advisor explain hold-out
    """
    from advisor.reporting import text as glossary

    entries = [glossary.term(" ".join(term))] if term else list(glossary.terms())
    if as_json:
        print_document(terms=list(map(asdict, entries)))
    elif term:
        typer.secho(entries[0].name, bold=True)
        typer.echo(textwrap.fill(entries[0].text, WIDTH))
        typer.echo(f"More: {entries[0].place}")
    else:
        typer.echo(textwrap.fill(", ".join(entry.name for entry in entries), WIDTH))


app = Commands(
    name="advisor",
    cls=AllCommands,
    help="Chooses, retrains and compresses the image model to ship on phones and small devices.",
    epilog=(
        "Exit codes: 0 done, 2 wrong usage or data (nothing spent), 3 nothing meets the budget or"
        " the result is incomplete, 4 the recommendation changed, 1 internal error, 130"
        " interrupted (state saved)."
    ),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": HELP_WIDTH},
)


@app.callback(invoke_without_command=True)
def version(
    show: bool = typer.Option(
        False, "--version", help="Show the version and exit.", is_eager=True
    ),
) -> None:
    if show:
        typer.echo(f"advisor {__version__}")
        raise typer.Exit


app.command(cls=SearchCommand, short_help="Find the model to ship.")(search)
app.command(
    cls=GroupedCommand, short_help="Write a request file with a comment for every option."
)(init)
app.command(cls=SearchCommand, short_help="Show what a search would do, and its price.")(plan)
app.command(short_help="Time .tflite files, here or on a device.")(benchmark)
app.command(short_help="Show where the time of a .tflite file goes.")(profile)
app.command(short_help="Compress a .tflite file and measure what it costs.")(compress)
for group in (cards_app, devices_app, data_app, cache_app):
    app.add_typer(group)
app.command(short_help="Decide again with other limits, and write the report.")(report)
app.command(short_help="Show what the pick answers to photographs.")(predict)
app.command(short_help="List runs with their picks.")(runs)
app.command(short_help="Write the bundle to ship: model, labels, code.")(export)
app.command(short_help="Show what changed between two runs.")(compare)
app.command(short_help="Answer earlier runs again after a change.")(reevaluate)
app.command(short_help="Learn from more images, and compare.")(update)
app.command(short_help="Run the files of a fleet on a device.")(verify)
app.command(short_help="Explain a term of the reports.")(explain)
app.command(short_help="Check whether this machine is ready.")(doctor)


def main() -> NoReturn:
    """Run the command line.

    An error of the user prints a message and a hint, never a traceback.
    """
    COMMAND_BEGAN.set(began_with_process())
    _open_standard_streams()
    # SIGTERM must not be forwarded as SIGINT: a shell starts background jobs with SIGINT ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Names of files need not be in the terminal's encoding.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
        # A program that put another output in its place, such as a test, keeps that one.
        if sys.stdout is sys.__stdout__:
            sys.stdout = PatientOutput.around(sys.stdout)
    try:
        app()
    except AdvisorError as error:
        _print_error(error.message, error.hint)
        sys.exit(error.exit_code)
    except Exception as error:
        if os.environ.get("ADVISOR_DEBUG"):
            raise
        _exit_for(error)
    sys.exit(ExitCode.OK)


def _exit_for(error: Exception) -> NoReturn:
    """Print what failed, and end the process: the system, memory, or a bug of ours."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:  # the system refuses: no bug of ours
        place = error.filename or "the output"
        _print_error(f"{place}: {error.strerror}", _SYSTEM_HINTS.get(error.errno or 0, ""))
        sys.exit(ExitCode.USAGE)
    # Of Path.resolve, before Python 3.13.
    if isinstance(error, RuntimeError) and text.startswith("Symlink loop"):
        _print_error(os.strerror(errno.ELOOP), _SYSTEM_HINTS[errno.ELOOP])
        sys.exit(ExitCode.USAGE)
    if os.strerror(errno.EMFILE) in text:  # of a library that cannot be loaded
        _print_error(text, _SYSTEM_HINTS[errno.EMFILE])
        sys.exit(ExitCode.USAGE)
    if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
        _print_error(f"memory ran out{_measure_memory()}", _SYSTEM_HINTS[errno.ENOMEM])
        sys.exit(ExitCode.UNSATISFIED)
    # Python's functions for files raise no class of their own for such a path.
    if isinstance(error, ValueError) and "embedded null" in text:
        _print_error("a path contains a NUL character", "check the paths that you gave")
        sys.exit(ExitCode.USAGE)
    _print_error(
        f"internal error: {type(error).__name__}: {error}",
        "this is a bug in advisor; run again with ADVISOR_DEBUG=1 for the traceback, and"
        " please report it",
    )
    sys.exit(ExitCode.INTERNAL_ERROR)


def _measure_memory() -> str:
    """Return the memory of this machine behind a colon; empty if too little is left to ask."""
    with contextlib.suppress(MemoryError, ImportError, SystemError):
        from advisor.api import memory_there

        return f": {memory_there()}"
    return ""


class PatientOutput(io.TextIOWrapper):
    """An output whose reader may close the pipe:
    it has all that it wants, and the command ends with its own code.
    """

    @classmethod
    def around(cls, stream: io.TextIOWrapper) -> PatientOutput:
        """Return the output in place of a stream, which cannot be used any more."""
        settings = (stream.encoding, stream.errors, None, stream.line_buffering)
        return cls(stream.detach(), *settings)

    def write(self, text: str) -> int:
        """Write a text, or nothing if nobody reads."""
        try:
            return super().write(text)
        except BrokenPipeError:
            self._lead_to_nowhere()
            return len(text)

    def flush(self) -> None:
        """Flush what was written, or nothing if nobody reads."""
        try:
            super().flush()
        except BrokenPipeError:
            self._lead_to_nowhere()

    def _lead_to_nowhere(self) -> None:
        # The descriptor, because Python flushes the stream once more when it ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def _open_standard_streams() -> None:
    """Lead closed standard streams to nowhere;
    otherwise the next file that is opened gets what is written to them.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest free number, which is this one:
            # those below are open by now.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _print_error(message: str, hint: str) -> None:
    colour = "red" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else None
    with contextlib.suppress(OSError):  # the exit code says it where nothing can be written
        try:
            write_sentences(f"error: {_make_readable(message)}", err=True, colour=colour)
            if hint:
                write_sentences(f"hint:  {_make_readable(hint)}", err=True)
        except MemoryError:  # colours and tables of characters need some, too
            os.write(2, _OUT_OF_MEMORY)


def _make_readable(message: str) -> str:
    """Return a message without passwords and characters that steer a terminal,
    very long ones cut in the middle.
    """
    # A message may quote an address with its password, or names from files of others.
    text = visible(without_password(message))
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
