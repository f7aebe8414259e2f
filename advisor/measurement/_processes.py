"""Check a ``.tflite`` file before anything is measured, run a measurement in a child process,
and read its document.

Every measurement here, and several integrations, run in such a process (:func:`call_json`, by the
name of a function), so that a crash of the runtime is one error. The document has the form that
the agent prints.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import RuntimeRefusal, StageError, UsageError, last_line, show_bytes
from advisor.isolation import Finished, agent, run_program

if TYPE_CHECKING:
    from advisor.tflite import Model

CHILD_MEMORY_LIMIT = 3 * 10**9

# The package's folder is appended, not inserted at the front:
# it must not hide the standard library.
_CALL = (
    "import sys; sys.path.append(sys.argv[1]); from advisor.measurement._processes import main;"
    " main()"
)
_HINTS = {"shape": "give the shape that the product uses, such as --shape 1,224,224,3"}


@dataclass(frozen=True)
class ModelFile:
    """A file that was read: its path as given, its content,
    and the memory that its activations need at once.
    """

    model: str
    path: Path
    graph: Model
    arena_bytes: int

    @property
    def detects(self) -> bool:
        """True if the file decodes boxes and drops those that overlap."""
        from advisor.tflite import has_postprocess

        return has_postprocess(self.graph)

    def require_memory(self) -> None:
        """Raise UsageError if its constants and activations do not fit into the memory
        of a measuring process.
        """
        import psutil

        needed = self.graph.size_bytes + self.arena_bytes
        free = int(psutil.virtual_memory().available)
        if needed > min(free, CHILD_MEMORY_LIMIT):
            limit = show_bytes(CHILD_MEMORY_LIMIT)
            raise UsageError(
                f"{self.path.name} needs {show_bytes(needed)} for its constants and activations",
                f"{show_bytes(free)} are free on this machine, and a measuring process may take"
                f" {limit}",
            )


def read_model(model: Path | str) -> ModelFile:
    """Read a file; raise UsageError if it is missing or damaged."""
    from advisor.tflite import activation_arena_bytes, read

    path = existing_model(model)
    graph = read(path)
    return ModelFile(str(model), path, graph, activation_arena_bytes(graph))


def existing_model(model: Path | str) -> Path:
    """Return ``model`` as a path; raise UsageError if there is no such file."""
    path = Path(model)
    if not path.is_file():
        raise UsageError(f"no model file '{path}'", "give the path of a .tflite file")
    return path


def detector_notes(names: Iterable[str]) -> tuple[str, ...]:
    """Return a remark on the latency of detectors; none without a detector."""
    from advisor.tflite import OPERATOR

    listed = tuple(names)
    if not listed:
        return ()
    which = listed[0] if len(listed) == 1 else f"the {len(listed)} detectors"
    return (
        f"the latency of {which} includes {OPERATOR}, which takes longer if it keeps more boxes",
    )


class Reported(StageError):
    """An error that a child process reported;
    ``kind`` is ``runtime`` if the installed library is the cause.
    """

    def __init__(self, message: str, hint: str = "", kind: str = "") -> None:
        super().__init__(message, hint)
        self.kind = kind


class Refused(Reported, RuntimeRefusal):
    """The runtime cannot load or run the file."""


def run_json(
    arguments: Sequence[str], timeout_s: float, subject: str, python: Path | None = None
) -> dict[str, Any]:
    """Run a Python script and return the JSON object that it prints on standard output.

    The child has its own process group, which is killed after a time-out, an interrupt or another
    exception. No shell reads the arguments, which begin with the script. Error messages name the
    ``subject``, such as a file. ``python`` is the interpreter of another environment, where the
    script cannot import this package. StageError if the child ran out of time, was ended by a
    signal, reported an error, or printed no JSON object.
    """
    interpreter = [sys.executable, "-P"] if python is None else [str(python), "-I", "-X", "utf8"]
    environment = {
        **os.environ,
        "PYTHONUTF8": "1",
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
    }
    try:
        finished = run_program(
            [*interpreter, *arguments], timeout_s=timeout_s, environment=environment
        )
    except StageError as error:
        raise StageError(
            f"{subject}: no result after {timeout_s:g} s, the measuring process was killed",
            "the model hangs, or it needs a longer time limit",
        ) from error
    return _read_document(finished, subject)


def call_json(
    function: str, timeout_s: float, subject: str, **arguments: object
) -> dict[str, Any]:
    """Call a function of this package (``module:name``) in a child process
    and return the JSON object that it returns.

    The arguments are JSON values; the rest, and the errors, are as of :func:`run_json`.
    """
    root = str(Path(__file__).parents[2])
    document = run_json(["-c", _CALL, root, function, json.dumps(arguments)], timeout_s, subject)
    # It is the version of the agent's document, which has other fields.
    del document["schema_version"]
    return document


def main() -> None:
    """Make the call of :func:`call_json` in the child, print its document, and exit."""
    module, _, name = sys.argv[2].partition(":")
    # Importing inside the call, so that its errors are reported too.
    sys.exit(
        agent.print_document(
            lambda: getattr(import_module(module), name)(**json.loads(sys.argv[3]))
        )
    )


def _read_document(finished: Finished, subject: str) -> dict[str, Any]:
    """Return the child's document, or raise an error that says in one line why there is none."""
    process = f"{subject}: the measuring process"
    if finished.death:
        # No hint if it is one of the runtime's usual log lines.
        line = last_line(finished.stderr)
        hint = "" if line.startswith(("INFO", "W0000", "I0000")) else line
        raise StageError(f"{process} {finished.death}", hint)
    try:
        document = json.loads(finished.stdout)
    except ValueError as error:
        printed = last_line(finished.stderr) or last_line(finished.stdout) or "nothing"
        raise StageError(
            f"{process} ended with status {finished.status} and printed: {printed}"
        ) from error
    if not isinstance(document, dict):
        raise StageError(f"{process} printed no JSON object")
    if "error" in document:
        error_facts = document["error"]
        kind = str(error_facts.get("kind", ""))
        refused = Refused if kind in ("load", "run") else Reported
        raise refused(
            f"{subject}: {error_facts.get('message', 'unknown error')}", _HINTS.get(kind, ""), kind
        )
    if finished.status != 0:
        raise StageError(f"{process} ended with status {finished.status}")
    return document
