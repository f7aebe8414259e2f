"""Options with which a file is loaded for timing."""

from dataclasses import dataclass
from pathlib import Path

from advisor.measurement._processes import CHILD_MEMORY_LIMIT


@dataclass(frozen=True)
class InterpreterOptions:
    """The way to load a file; kernels are ``default`` (XNNPACK for the operators that it supports)
    or ``builtin``.

    The shape is that of the first input, if the file does not state it. ``python`` is the
    interpreter of an environment with another runtime. Threads are pinned to ``cpus``, if given.
    """

    kernels: str = "default"
    shape: tuple[int, ...] | None = None
    python: Path | None = None
    cpus: tuple[int, ...] | None = None

    def options(self) -> list[str]:
        """Return the agent's options."""
        shape = ["--shape", ",".join(map(str, self.shape))] if self.shape else []
        cpus = ["--cpus", ",".join(map(str, self.cpus))] if self.cpus else []
        return [
            "--kernels",
            self.kernels,
            "--memory-limit",
            str(CHILD_MEMORY_LIMIT),
            *shape,
            *cpus,
        ]
