"""Compilers that estimate what an accelerator makes of a file: what integrations offer, and what they find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from advisor.core.codec import Written
from advisor.core.integrations import integration, registered
from advisor.core.quantity import Quantity
from advisor.core.units import plural, show_bytes

COMPILERS = "advisor.compilers"
"""Entry points of :class:`Compiler`: modules or objects, by the beginning of the names of their accelerators."""


class CompilerUnit(Protocol):
    """A configuration of an accelerator that a file is compiled for."""

    @property
    def name(self) -> str:
        """The configuration, such as ``ethos-u55-128``."""

    @property
    def mode(self) -> str:
        """The memories of weights and activations."""

    @property
    def system(self) -> str:
        """Clock and memories around it, by the compiler's name."""

    @property
    def title(self) -> str:
        """The name as people read it."""


@dataclass(frozen=True)
class EthosEstimate(Written):
    """A compiled file; every figure is the compiler's estimate.

    Attributes:
        unit: the configuration that it was compiled for.
        compiler: name and version.
        clock_mhz: clock of the unit.
        operators: number of operators in the file.
        on_cpu: operators that the unit does not run, by type.
        reasons: why, in the compiler's words.
        macs: multiply-accumulates that the unit runs.
        cycles: cycles of the unit in one run; 0 if it runs nothing.
        latency: time of these cycles in ms, without the operators on the CPU; None if it runs nothing.
        sram: memory in bytes that activations and copied weights need at once.
        dram: the same of DRAM.
        flash: weights and commands in bytes that are read from flash.
    """

    entries = (
        "accelerator=unit.name", "memory_mode=unit.mode", "system=unit.system", "compiler", "clock_mhz", "operators",
        "on_npu", "on_cpu", "reasons", "macs", "latency", "cycles", "sram", "dram", "flash", "sentence",
    )  # fmt: skip

    unit: CompilerUnit
    compiler: str
    clock_mhz: float
    operators: int
    on_cpu: Mapping[str, int]
    reasons: tuple[str, ...]
    macs: int
    cycles: Quantity
    latency: Quantity | None
    sram: Quantity
    dram: Quantity
    flash: Quantity

    @property
    def on_npu(self) -> int:
        """The number of operators that the unit runs."""
        return self.operators - sum(self.on_cpu.values())

    @property
    def sentence(self) -> str:
        """The result in words."""
        head = f"{self.unit.title} runs {self.on_npu} of {plural(self.operators, 'operator')}"
        left = ", ".join(f"{name} ({count}x)" if count > 1 else name for name, count in self.on_cpu.items())
        head += f", the CPU {left}" if left else ""
        if self.latency is None:
            return head
        memory = {"SRAM": self.sram, "DRAM": self.dram, "flash": self.flash}
        used = ", ".join(f"{show_bytes(size.value)} of {name}" for name, size in memory.items() if size.value)
        return (
            f"{head}: {self.cycles.value:,.0f} cycles, {self.latency.value:.3g} ms at {self.clock_mhz:g} MHz, {used}; "
            f"estimated by {self.compiler}"
        )


class Compiler(Protocol):
    """Compiles files for some accelerators, and says what it expects of them."""

    NAMES: tuple[str, ...]
    """The accelerators."""

    def unit_named(self, name: str) -> Any:
        """Return the configuration with a name.

        Raises:
            UsageError: there is none.
        """

    def estimate(self, path: Path, unit: Any) -> EthosEstimate:
        """Compile a file in a child process and return the compiler's estimates.

        Raises:
            UsageError: the compiler is not installed, or the file is damaged.
            StageError: the compiler refuses the file or runs out of time.
        """


def compiler_of(accelerator: str) -> Compiler | None:
    """Return the compiler for an accelerator; None for an accelerator whose rules are known."""
    prefix = next(filter(accelerator.startswith, registered(COMPILERS)), None)
    found: Compiler | None = None if prefix is None else integration(COMPILERS, prefix)
    return found


def compiled_accelerators() -> tuple[str, ...]:
    """Return the names of the accelerators that compilers are for."""
    return tuple(name for each in registered(COMPILERS) for name in integration(COMPILERS, each).NAMES)
