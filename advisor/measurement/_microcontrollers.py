"""Findings of interpreters and compilers for microcontrollers, and the protocols of both.

Integrations implement :class:`Interpreter` and :class:`Compiler`, and entry points name them. The
``entries`` of the findings are keys of JSON documents and of stages in the cache.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from advisor.core import (
    Provenance,
    Quantity,
    Written,
    list_registered,
    load_integration,
    plural,
    show_bytes,
)

INTERPRETERS = "advisor.interpreters"
"""Entry points of :class:`Interpreter`:
modules or objects, by the name of the runtime of a device.
"""

COMPILERS = "advisor.compilers"
"""Entry points of :class:`Compiler`:
modules or objects, by the beginning of the names of their accelerators.
"""


@dataclass(frozen=True)
class OutputDifference:
    """Comparison of outputs with those of other kernels."""

    differing: int  #: number of output values that differ
    largest: float  #: largest difference, in the unit of the output (steps for 8-bit outputs)


@dataclass(frozen=True)
class MicroCheck(Written):
    """The run of a file in TFLM on this machine, whose pointers have 64 bits."""

    entries = (
        "runtime",
        "runs",
        "reason=reason?",
        "operators",
        "missing_operators=missing",
        "arena_bytes=arena_bytes?",
        "activation_bytes=activation_bytes?",
        "compared_values=values",
        "differences_from_litert=differences",
    )

    runtime: str  #: name and version
    operators: tuple[str, ...]  #: operator types of the file
    missing: tuple[str, ...] = ()  #: those that TFLM does not have
    refusal: str = ""  #: why it refuses the file otherwise, empty if it does not
    #: the smallest tensor arena with which the file runs; 0 if it does not run
    arena_bytes: int = 0
    activation_bytes: int = 0  #: the activations' share of it
    values: int = 0  #: number of output values that were compared
    #: comparison with LiteRT's ``reference`` kernels and with its ``default`` ones (XNNPACK)
    differences: Mapping[str, OutputDifference] = field(
        default_factory=lambda: MappingProxyType({})
    )
    measured_on: str = ""  #: the day, as ISO 8601

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
        source = (
            f"{self.runtime} on this machine, measured on {self.measured_on}, reference kernels"
        )
        return Quantity(float(self.arena_bytes), "bytes", Provenance.MEASURED, source=source)

    @property
    def agreement(self) -> str:
        """The comparison with LiteRT in words."""
        exact = self.differences["reference"]
        usual = self.differences["default"]
        text = (
            f"of {plural(self.values, 'output')} {exact.differing or 'none'} differ from LiteRT's"
            " reference kernels"
        )
        if exact.differing:
            text += f" (by at most {exact.largest:g})"
        text += f", {usual.differing or 'none'} from its default ones"
        if usual.differing:
            text += f" (by at most {usual.largest:g})"
        return text


class Interpreter(Protocol):
    """The interpreter of another kind of device, which runs on this machine too."""

    NAME: str  #: The name for people, such as ``TensorFlow Lite Micro``
    PACKAGE: str  #: The package whose version the results depend on
    INSTALL: str  #: The way to install it

    def available(self) -> bool:
        """Return whether the interpreter is installed."""

    def check(self, path: Path) -> MicroCheck:
        """Run a file in a child process.

        Raises:
            UsageError: the interpreter is not installed, or the file is damaged.
            StageError: the child ran out of time or crashed.
        """


def interpreter_of(runtime: str) -> Interpreter | None:
    """Return the interpreter of a runtime that runs here too; None for another runtime."""
    if runtime not in list_registered(INTERPRETERS):
        return None
    interpreter: Interpreter = load_integration(INTERPRETERS, runtime)
    return interpreter


@dataclass(frozen=True)
class Unit:
    """A configuration of an accelerator, such as ``ethos-u55-128``, in a memory mode,
    such as ``sram-only``.

    ``system`` is the compiler's name of the clock and the memories around it.
    """

    name: str
    mode: str
    system: str

    @property
    def title(self) -> str:
        """The name as people read it."""
        return f"{self.name.replace('ethos-u', 'Ethos-U')} ({self.mode})"


@dataclass(frozen=True)
class EthosEstimate(Written):
    """A compiled file; every figure is the compiler's estimate."""

    entries = (
        "accelerator=unit.name",
        "memory_mode=unit.mode",
        "system=unit.system",
        "compiler",
        "clock_mhz",
        "operators",
        "on_npu",
        "on_cpu",
        "reasons",
        "macs",
        "latency",
        "cycles",
        "sram",
        "dram",
        "flash",
        "sentence",
    )

    unit: Unit
    compiler: str
    clock_mhz: float
    operators: int
    on_cpu: Mapping[str, int]  #: operators that the unit does not run, by type
    reasons: tuple[str, ...]  #: why, in the compiler's words
    macs: int  #: multiply-accumulates that the unit runs
    cycles: Quantity  #: cycles of the unit in one run; 0 if it runs nothing
    #: time of these cycles in ms, without the operators on the CPU; None if it runs nothing
    latency: Quantity | None
    sram: Quantity  #: memory in bytes that activations and copied weights need at once
    dram: Quantity  #: the same of DRAM
    flash: Quantity  #: weights and commands in bytes that are read from flash

    @property
    def on_npu(self) -> int:
        """The number of operators that the unit runs."""
        return self.operators - sum(self.on_cpu.values())

    @property
    def sentence(self) -> str:
        """The result in words."""
        head = f"{self.unit.title} runs {self.on_npu} of {plural(self.operators, 'operator')}"
        if self.on_cpu:
            types = []
            for name, count in self.on_cpu.items():
                times = f" ({count}x)" if count > 1 else ""
                types.append(f"{name}{times}")
            head += f", the CPU {', '.join(types)}"
        if self.latency is None:
            return head
        used = []
        for name, size in (("SRAM", self.sram), ("DRAM", self.dram), ("flash", self.flash)):
            if size.value:
                used.append(f"{show_bytes(size.value)} of {name}")
        return (
            f"{head}: {self.cycles.value:,.0f} cycles, {self.latency.value:.3g} ms at"
            f" {self.clock_mhz:g} MHz, {', '.join(used)}; estimated by {self.compiler}"
        )


class Compiler(Protocol):
    """Compiles files for some accelerators, and says what it expects of them."""

    NAMES: tuple[str, ...]  #: The accelerators

    def unit_named(self, name: str) -> Unit:
        """Return the configuration with a name.

        Raises:
            UsageError: there is none.
        """

    def estimate(self, path: Path, unit: Unit) -> EthosEstimate:
        """Compile a file in a child process and return the compiler's estimates.

        Raises:
            UsageError: the compiler is not installed, or the file is damaged.
            StageError: the compiler refuses the file or runs out of time.
        """


def compiler_of(accelerator: str) -> Compiler | None:
    """Return the compiler for an accelerator; None for an accelerator whose rules are known."""
    for prefix in list_registered(COMPILERS):
        if accelerator.startswith(prefix):
            compiler: Compiler = load_integration(COMPILERS, prefix)
            return compiler
    return None


def list_compiled() -> tuple[str, ...]:
    """Return the names of the accelerators that compilers are for."""
    names = list[str]()
    for prefix in list_registered(COMPILERS):
        names += load_integration(COMPILERS, prefix).NAMES
    return tuple(names)
