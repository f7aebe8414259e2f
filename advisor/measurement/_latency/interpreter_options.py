"""Options with which a file is loaded for a timing; the agent takes them on its command line."""

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
        options = ["--kernels", self.kernels, "--memory-limit", str(CHILD_MEMORY_LIMIT)]
        if self.shape:
            options += ["--shape", ",".join(map(str, self.shape))]
        if self.cpus:
            options += ["--cpus", ",".join(map(str, self.cpus))]
        return options
