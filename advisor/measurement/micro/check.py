"""Check a ``.tflite`` file with the real interpreter of TensorFlow Lite Micro (TFLM) on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from advisor.core.codec import Written
from advisor.core.errors import UsageError, install_extra
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import plural
from advisor.measurement.processes.child import call_json

PROCESS = "advisor.measurement.micro.interpreter_process"
EXTRA = "micro"
NAME = "TensorFlow Lite Micro"
INPUTS = 4
TIMEOUT_S = 120.0
"""The reference kernels take 0.1 s for a network of 10 million multiply-accumulates."""


@dataclass(frozen=True)
class OutputDifference:
    """Comparison of outputs with those of other kernels.

    Attributes:
        differing: number of output values that differ.
        largest: largest difference, in the unit of the output (steps for 8-bit outputs).
    """

    differing: int
    largest: float


@dataclass(frozen=True)
class MicroCheck(Written):
    """The run of a file in TFLM on this machine, whose pointers have 64 bits.

    Attributes:
        runtime: name and version.
        operators: operator types of the file.
        missing: those that TFLM does not have.
        refusal: why it refuses the file otherwise, empty if it does not.
        arena_bytes: the smallest tensor arena with which the file runs; 0 if it does not run.
        activation_bytes: the activations' share of it.
        values: number of output values that were compared.
        differences: comparison with LiteRT's ``reference`` kernels and with its ``default`` ones (XNNPACK).
        measured_on: the day, as ISO 8601.
    """

    entries = (
        "runtime", "runs", "reason=reason?", "operators", "missing_operators=missing", "arena_bytes=arena_bytes?",
        "activation_bytes=activation_bytes?", "compared_values=values", "differences_from_litert=differences",
    )  # fmt: skip

    runtime: str
    operators: tuple[str, ...]
    missing: tuple[str, ...] = ()
    refusal: str = ""
    arena_bytes: int = 0
    activation_bytes: int = 0
    values: int = 0
    differences: Mapping[str, OutputDifference] = field(default_factory=lambda: MappingProxyType({}))
    measured_on: str = ""

    @property
    def reason(self) -> str:
        """The reason why TFLM does not run the file; empty if it does."""
        if self.missing:
            return f"{self.runtime} has no {', '.join(self.missing)}"
        return f"{self.runtime} refuses it: {self.refusal}" if self.refusal else ""

    @property
    def runs(self) -> bool:
        """True if TFLM runs the file."""
        return not self.reason

    @property
    def arena(self) -> Quantity:
        """The measured arena in bytes."""
        source = f"{self.runtime} on this machine, measured on {self.measured_on}, reference kernels"
        return Quantity(float(self.arena_bytes), "bytes", Provenance.MEASURED, source=source)

    @property
    def agreement(self) -> str:
        """The comparison with LiteRT in words."""
        exact, usual = self.differences["reference"], self.differences["default"]
        said = f"of {plural(self.values, 'output')} {exact.differing or 'none'} differ from LiteRT's reference kernels"
        said += f" (by at most {exact.largest:g})" if exact.differing else ""
        return f"{said}, {usual.differing or 'none'} from its default ones" + (
            f" (by at most {usual.largest:g})" if usual.differing else ""
        )


def available() -> bool:
    """Return whether the interpreter is installed."""
    return find_spec("tflite_micro") is not None


def check(path: Path, inputs: int = INPUTS) -> MicroCheck:
    """Run a file in TFLM, in a child process.

    Args:
        path: of the file.
        inputs: number of random inputs whose outputs are compared with LiteRT's.

    Raises:
        UsageError: the interpreter is not installed, or the file is damaged.
        StageError: the child ran out of time or crashed.
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
