"""Microcontrollers: the interpreter of TensorFlow Lite Micro (TFLM), a compiler for Ethos-U, and
sources for firmware.

The entry point ``advisor.interpreters`` names this module; ``measurement/_microcontrollers.py``
declares what it must offer, and the search and ``advisor profile`` call :func:`check` for a file.
``_interpreter.py`` runs in the child process, ``ethos.py`` asks Arm's compiler, and
``firmware.py`` writes the sources of a bundle. Findings are kept in the cache and in JSON
documents, and firmware of users has the names in the sources: both stay.
"""

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from advisor.core import UsageError, install_extra
from advisor.measurement import MicroCheck, OutputDifference, call_json

NAME = "TensorFlow Lite Micro"
EXTRA = "micro"
"""The extra with the interpreter and the compiler."""

INSTALL = install_extra(EXTRA)
PACKAGE = "tflite-micro"
INPUTS = 4
TIMEOUT_S = 120.0
"""The reference kernels take 0.1 s for a network of 10 million multiply-accumulates."""


def available() -> bool:
    """Return whether the interpreter is installed."""
    return find_spec("tflite_micro") is not None


def check(path: Path, inputs: int = INPUTS) -> MicroCheck:
    """Run a file in TensorFlow Lite Micro, in a child process, and compare its outputs with
    LiteRT's.

    ``inputs`` is the number of random inputs.

    Raises:
        UsageError: the interpreter is not installed, or the file is damaged.
        StageError: the child ran out of time or crashed.
    """
    from advisor.tflite import read

    if not available():
        raise UsageError(f"{NAME} is not installed", install_extra(EXTRA))
    operators = set[str]()
    for graph in read(path).subgraphs:
        operators.update(operator.name for operator in graph.operators)
    document = call_json(
        f"{__name__}._interpreter:collect",
        TIMEOUT_S,
        path.name,
        path=str(path.absolute()),
        inputs=inputs,
    )
    runtime = f"{NAME} {document['version']}"
    names = tuple(sorted(operators))
    if document["missing"] or document["refusal"]:
        return MicroCheck(runtime, names, tuple(document["missing"]), document["refusal"])
    differences = {}
    for kernels, difference in document["kernels"].items():
        differences[kernels] = OutputDifference(**difference)
    return MicroCheck(
        runtime,
        names,
        arena_bytes=document["arena_bytes"],
        activation_bytes=document["activation_bytes"],
        values=document["values"],
        differences=differences,
        measured_on=datetime.now(UTC).date().isoformat(),
    )
