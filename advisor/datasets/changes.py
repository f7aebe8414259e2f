"""Whether images are still those that were listed: a folder may change while hours of work rest on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from advisor.core.errors import StageError

Stamp = tuple[int, int]
"""Size in bytes and time of change in ns."""


def require_unchanged(paths: Sequence[Path], stamps: Sequence[Stamp]) -> None:
    """Pass images whose files are as they were when they were hashed.

    Raises:
        StageError: some changed or went; what was just made of them must not be kept under their hashes.
    """
    changed = [path for path, stamp in zip(paths, stamps, strict=True) if _stamp(path) != stamp]
    if changed:
        number = "1 image" if len(changed) == 1 else f"{len(changed)} images"
        raise StageError(
            f"{number} changed or went since the search began, such as '{changed[0]}'",
            "nothing was kept of them; search again, so that they are read anew",
        )


def _stamp(path: Path) -> Stamp | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns
