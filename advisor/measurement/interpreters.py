"""What interpreters of microcontrollers, such as TensorFlow Lite Micro (TFLM), do with a file on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from advisor.core.integrations import integration, registered
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import plural

INTERPRETERS = "advisor.interpreters"
"""Entry points of :class:`Interpreter`: modules or objects, by the name of the runtime of a device."""


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
class MicroCheck:
    """What TFLM does with a file on this machine, whose pointers have 64 bits.

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
        """Why TFLM does not run the file; empty if it does."""
        if self.missing:
            return f"{self.runtime} has no {', '.join(self.missing)}"
        return f"{self.runtime} refuses it: {self.refusal}" if self.refusal else ""

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

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        differences = {name: asdict(each) for name, each in self.differences.items()}
        return {
            "runtime": self.runtime,
            "runs": not self.reason,
            "reason": self.reason or None,
            "operators": list(self.operators),
            "missing_operators": list(self.missing),
            "arena_bytes": self.arena_bytes or None,
            "activation_bytes": self.activation_bytes or None,
            "compared_values": self.values,
            "differences_from_litert": differences,
        }


class Interpreter(Protocol):
    """The interpreter of another kind of device, which runs on this machine too."""

    NAME: str
    """The name for people, such as ``TensorFlow Lite Micro``."""

    PACKAGE: str
    """The package whose version the results depend on."""

    INSTALL: str
    """How to install it."""

    def available(self) -> bool:
        """Return whether the interpreter is installed."""

    def check(self, path: Path) -> MicroCheck:
        """Run a file in a child process.

        Raises:
            UsageError: the interpreter is not installed, or the file is damaged.
            StageError: the child ran out of time or crashed.
        """


def interpreter_of(runtime: str) -> Interpreter | None:
    """Return the interpreter of a runtime that runs on this machine too; None for another runtime."""
    found: Interpreter | None = integration(INTERPRETERS, runtime) if runtime in registered(INTERPRETERS) else None
    return found


def installed_interpreter(runtime: str) -> Interpreter | None:
    """Return the interpreter of a runtime if it is installed; None if not, and for another runtime."""
    found = interpreter_of(runtime)
    return found if found is not None and found.available() else None
