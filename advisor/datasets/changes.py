"""Check that image files have not changed since they were read; a folder may change during a long search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from advisor.core.errors import StageError

Stamp = tuple[int, int]
"""Size in bytes and time of change in ns."""


def require_unchanged(paths: Sequence[Path], stamps: Sequence[Stamp]) -> None:
    """Check that files have the size and time of change that they had when they were hashed.

    Raises:
        StageError: some changed or are missing. Results from them must not be cached under the old hashes.
    """
    changed = [path for path, stamp in zip(paths, stamps, strict=True) if _stamp(path) != stamp]
    if changed:
        number = "1 image" if len(changed) == 1 else f"{len(changed)} images"
        raise StageError(
            f"{number} changed or disappeared since the search began, such as '{changed[0]}'",
            "no result was kept; start the search again to read them anew",
        )


def _stamp(path: Path) -> Stamp | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns
