"""Check a ``.tflite`` file before anything is measured: that it exists, is undamaged and fits into memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError
from advisor.core.units import show_bytes

if TYPE_CHECKING:
    from advisor.tflite.model import Model

CHILD_MEMORY_LIMIT = 3 * 10**9


@dataclass(frozen=True)
class ModelFile:
    """A file that was read.

    Attributes:
        model: its path as given.
        path: the same.
        graph: its content.
        arena_bytes: memory that its activations need at once, computed from their lifetimes.
    """

    model: str
    path: Path
    graph: Model
    arena_bytes: int

    @property
    def detects(self) -> bool:
        """True if the file decodes boxes and drops those that overlap."""
        from advisor.tflite.postprocess import has_postprocess

        return has_postprocess(self.graph)

    def require_memory(self) -> None:
        """Refuse the file if its constants and activations do not fit into the memory of a measuring process.

        Raises:
            UsageError: they do not fit.
        """
        import psutil

        needed, free = self.graph.size_bytes + self.arena_bytes, int(psutil.virtual_memory().available)
        if needed > min(free, CHILD_MEMORY_LIMIT):
            limit = show_bytes(CHILD_MEMORY_LIMIT)
            raise UsageError(
                f"{self.path.name} needs {show_bytes(needed)} for its constants and activations",
                f"{show_bytes(free)} are free on this machine, and a measuring process may take {limit}",
            )


def detector_notes(names: Iterable[str]) -> tuple[str, ...]:
    """Return a remark on the latency of detectors; none without a detector."""
    from advisor.tflite.postprocess import OPERATOR

    listed = tuple(names)
    if not listed:
        return ()
    which = listed[0] if len(listed) == 1 else f"the {len(listed)} detectors"
    return (f"the latency of {which} includes {OPERATOR}, which takes longer if it keeps more boxes",)


def existing_model(model: Path | str) -> Path:
    """Return ``model`` as a path.

    Raises:
        UsageError: the file does not exist.
    """
    path = Path(model)
    if not path.is_file():
        raise UsageError(f"no model file '{path}'", "give the path of a .tflite file")
    return path


def read_model(model: Path | str) -> ModelFile:
    """Read a file.

    Raises:
        UsageError: it is missing or damaged.
    """
    from advisor.tflite.arena import activation_arena_bytes
    from advisor.tflite.model import read

    path = existing_model(model)
    graph = read(path)
    return ModelFile(str(model), path, graph, activation_arena_bytes(graph))
