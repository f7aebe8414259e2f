"""Microcontrollers: the interpreter of TensorFlow Lite Micro, a compiler for Ethos-U, the sources for firmware."""

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from advisor.core.errors import UsageError, install_extra
from advisor.measurement.microcontrollers import MicroCheck, OutputDifference
from advisor.measurement.processes.child import call_json

PROCESS = "advisor.integrations.microcontroller.interpreter_process"
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
    """Run a file in TensorFlow Lite Micro, in a child process, and compare outputs of random inputs with LiteRT's.

    Raises UsageError: the interpreter is not installed, or the file is damaged. StageError: the child ran out of time
    or crashed.
    """
    from advisor.tflite.model import read

    if not available():
        raise UsageError(f"{NAME} is not installed", install_extra(EXTRA))
    kinds = {operator.name for graph in read(path).subgraphs for operator in graph.operators}
    operators = tuple(sorted(kinds))
    found = call_json(PROCESS, TIMEOUT_S, path.name, path=str(path.absolute()), inputs=inputs)
    runtime = f"{NAME} {found['version']}"
    if found["missing"] or found["refusal"]:
        return MicroCheck(runtime, operators, tuple(found["missing"]), found["refusal"])
    return MicroCheck(
        runtime,
        operators,
        arena_bytes=found["arena_bytes"],
        activation_bytes=found["activation_bytes"],
        values=found["values"],
        differences={name: OutputDifference(**each) for name, each in found["kernels"].items()},
        measured_on=datetime.now(UTC).date().isoformat(),
    )
