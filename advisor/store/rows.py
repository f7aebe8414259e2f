"""Cache computed rows under the hash of their input, so that another set of inputs can use them again.

A block is a folder with ``rows.npy`` (N, F) and ``names.npy`` (N, 32), the hash of each row. A list of blocks is a text
file with one folder per line. Blocks are written atomically (see :mod:`advisor.store.cache`). If a process is killed
before it adds its block to the list, only the work for this block is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS, NAMES = "rows.npy", "names.npy"
_NAME_BYTES = 32


def cached_rows(
    blocks: Path, names: Sequence[bytes], compute: Callable[[Sequence[int]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return the rows of these names; compute those that no block contains.

    Args:
        blocks: the list of blocks.
        names: N hashes of 32 bytes.
        compute: takes indices into the names and returns their rows. It is called once, also if all rows are known.

    Returns:
        float32, shape (N, F).
    """
    import numpy as np

    known = _known(blocks, set(names))
    missing = [position for position, name in enumerate(names) if name not in known]
    fresh = compute(missing)
    rows = np.empty((len(names), fresh.shape[1]), np.float32)
    rows[missing] = fresh
    for position, name in enumerate(names):
        if name in known:
            if len(known[name]) != rows.shape[1]:
                raise ValueError(f"a row of {len(known[name])} values among rows of {rows.shape[1]}")
            rows[position] = known[name]
    return rows


def write_block(folder: Path, names: Sequence[bytes], rows: NDArray[np.float32]) -> None:
    """Write rows and their names as a block into ``folder``."""
    import numpy as np

    np.save(folder / ROWS, rows)
    np.save(folder / NAMES, np.frombuffer(b"".join(names), np.uint8).reshape(-1, _NAME_BYTES))


def add_block(blocks: Path, folder: Path) -> None:
    """Add a block, a folder next to the list, to the list unless it is already there."""
    line = folder.name.encode() + b"\n"
    if blocks.exists() and line in blocks.read_bytes().splitlines(keepends=True):
        return
    with FileLock(f"{blocks}.lock"):
        written = blocks.read_bytes() if blocks.exists() else b""
        if line in written.splitlines(keepends=True):
            return
        with blocks.open("ab") as file:
            file.write((b"" if written.endswith(b"\n") or not written else b"\n") + line)


def _known(blocks: Path, wanted: Collection[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """Return the wanted rows that the blocks contain; the newest block counts."""
    found: dict[bytes, NDArray[np.float32]] = {}
    listed = blocks.read_text(encoding="utf-8", errors="replace").split() if blocks.exists() else []
    for block in reversed(listed):
        for name, row in _read(blocks.parent / Path(block).name, wanted):
            found.setdefault(name, row)
        if len(found) == len(wanted):
            break
    return found


def _read(folder: Path, wanted: Collection[bytes]) -> list[tuple[bytes, NDArray[np.float32]]]:
    """Return the wanted rows of a block; none if the block is missing or damaged."""
    import numpy as np

    try:
        names = np.load(folder / NAMES, allow_pickle=False)
        rows = np.load(folder / ROWS, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return []
    if names.shape != (len(rows), _NAME_BYTES) or rows.ndim != 2 or rows.dtype != np.float32:
        return []
    keys = [name.tobytes() for name in names]
    return [(key, rows[position]) for position, key in enumerate(keys) if key in wanted]
