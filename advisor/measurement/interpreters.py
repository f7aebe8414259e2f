"""Run files in interpreters of microcontrollers on this machine, such as TensorFlow Lite Micro (TFLM)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from advisor.core.codec import Written
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


class Interpreter(Protocol):
    """The interpreter of another kind of device, which runs on this machine too."""

    NAME: str
    """The name for people, such as ``TensorFlow Lite Micro``."""

    PACKAGE: str
    """The package whose version the results depend on."""

    INSTALL: str
    """The way to install it."""

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
