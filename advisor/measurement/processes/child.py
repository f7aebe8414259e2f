"""Run a measurement in a child process and read the JSON document that it prints."""

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from advisor.core.errors import RuntimeRefusal, StageError, last_line
from advisor.isolation.agent import report
from advisor.isolation.process import Finished, run_program

# The package's folder is appended, not inserted at the front: it must not hide the standard library.
_CALL = "import sys; sys.path.append(sys.argv[1]); from advisor.measurement.processes import child; child.main()"
_HINTS = {"shape": "give the shape that the product uses, such as --shape 1,224,224,3"}


class Reported(StageError):
    """An error that a child process reported.

    Attributes:
        kind: ``runtime`` if the installed library is the cause, ``shape``, ``load``, ...
    """

    def __init__(self, message: str, hint: str = "", kind: str = "") -> None:
        super().__init__(message, hint)
        self.kind = kind


class Refused(Reported, RuntimeRefusal):
    """The runtime cannot load or run the file."""


def run_json(arguments: Sequence[str], timeout_s: float, subject: str, python: Path | None = None) -> dict[str, Any]:
    """Run a Python script and return the JSON object that it prints on standard output.

    The child has its own process group, which is killed after a time-out, an interrupt or another exception.

    Args:
        arguments: the script and its arguments; no shell reads them. In another environment, the script cannot import
            this package.
        timeout_s: seconds until the child is killed.
        subject: what is measured, for error messages (the name of a file).
        python: interpreter of another environment, None for this one.

    Raises:
        StageError: the child ran out of time, was ended by a signal, reported an error, or printed no JSON object.
    """
    interpreter = [sys.executable, "-P"] if python is None else [str(python), "-I", "-X", "utf8"]
    environment = {**os.environ, "PYTHONUTF8": "1", "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")}
    try:
        finished = run_program([*interpreter, *arguments], timeout_s=timeout_s, environment=environment)
    except StageError as error:
        raise StageError(
            f"{subject}: no result after {timeout_s:g} s, the measuring process was killed",
            "the model hangs, or it needs a longer time limit",
        ) from error
    return _document(finished, subject)


def call_json(module: str, timeout_s: float, subject: str, **arguments: object) -> dict[str, Any]:
    """Call ``collect`` of a module of this package in a child process and return the JSON object that it returns.

    Args:
        module: name of the module.
        timeout_s: seconds until the child is killed.
        subject: what is measured, for error messages (the name of a file).
        arguments: the keyword arguments, as JSON values.

    Raises:
        StageError: as :func:`run_json`.
    """
    root = str(Path(__file__).parents[3])
    document = run_json(["-c", _CALL, root, module, json.dumps(arguments)], timeout_s, subject)
    del document["schema_version"]  # of the agent's document
    return document


def main() -> None:
    """Make the call of :func:`call_json` in the child, print its document, and exit."""
    module, arguments = sys.argv[2:]
    sys.exit(report(lambda: import_module(module).collect(**json.loads(arguments))))


def _document(finished: Finished, subject: str) -> dict[str, Any]:
    """Return the child's document, or raise an error that says in one line why there is none."""
    process = f"{subject}: the measuring process"
    if finished.death:
        raise StageError(f"{process} {finished.death}", _last_words(finished.stderr))
    try:
        document = json.loads(finished.stdout)
    except ValueError as error:
        printed = last_line(finished.stderr) or last_line(finished.stdout) or "nothing"
        raise StageError(f"{process} ended with status {finished.status} and printed: {printed}") from error
    if not isinstance(document, dict):
        raise StageError(f"{process} printed no JSON object")
    if "error" in document:
        raise _reported(document["error"], subject)
    if finished.status != 0:
        raise StageError(f"{process} ended with status {finished.status}")
    return document


def _reported(error: dict[str, Any], subject: str) -> Reported:
    kind = str(error.get("kind", ""))
    refused = Refused if kind in ("load", "run") else Reported
    return refused(f"{subject}: {error.get('message', 'unknown error')}", _HINTS.get(kind, ""), kind)


def _last_words(text: str) -> str:
    """Return the last line that a process printed, unless it is one of the runtime's usual log lines."""
    line = last_line(text)
    return "" if line.startswith(("INFO", "W0000", "I0000")) else line
