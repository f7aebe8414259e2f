"""Cache computed rows of numbers under the hash of their input, so that other sets can use them.

A stage writes a block of rows for its images, and computes only those that no block has. A block
is a folder with ``rows.npy`` (N, F) and ``names.npy`` (N, 32), the hash of each row. A list of
blocks is a text file with one folder a line. Blocks are written atomically (``_cache.py``): if a
process is killed before it adds its block to the list, only the work for this block is lost. These
files are in caches on the disks of users.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from advisor.store._files import is_unchanged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = "rows.npy"
NAMES = "names.npy"
_NAME_BYTES = 32
"""Files of a block of cached rows, and the bytes of the hash that names a row."""


def compute_cached_rows(
    blocks: Path, names: Sequence[bytes], compute: Callable[[Sequence[int]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return the float32 rows (N, F) of N names, which are hashes of 32 bytes.

    ``compute`` takes the indices of the names that no block has, and returns their rows. It is
    called once, also if all rows are known.
    """
    import numpy as np

    known = _read_known_rows(blocks, set(names))
    missing = []
    for position, name in enumerate(names):
        if name not in known:
            missing.append(position)
    fresh = compute(missing)
    rows = np.empty((len(names), fresh.shape[1]), np.float32)
    rows[missing] = fresh
    for position, name in enumerate(names):
        if name in known:
            if len(known[name]) != rows.shape[1]:
                raise ValueError(
                    f"a row of {len(known[name])} values among rows of {rows.shape[1]}"
                )
            rows[position] = known[name]
    return rows


def write_block(folder: Path, names: Sequence[bytes], rows: NDArray[np.float32]) -> None:
    """Write rows and their names as a block into ``folder``."""
    import numpy as np

    np.save(folder / ROWS, rows)
    np.save(folder / NAMES, np.frombuffer(b"".join(names), np.uint8).reshape(-1, _NAME_BYTES))


def write_cached_rows(
    folder: Path,
    blocks: Path,
    names: Sequence[bytes],
    compute: Callable[[Sequence[int]], NDArray[np.float32]],
) -> None:
    """Write the rows of these names as a block, see :func:`compute_cached_rows`."""
    write_block(folder, names, compute_cached_rows(blocks, names, compute))


def add_block(blocks: Path, folder: Path) -> None:
    """Add a block, a folder next to the list, to the list unless it is already there."""
    line = folder.name.encode() + b"\n"
    if blocks.is_file() and line in blocks.read_bytes().splitlines(keepends=True):
        return
    with FileLock(f"{blocks}.lock"):
        written = blocks.read_bytes() if blocks.is_file() else b""
        if line in written.splitlines(keepends=True):
            return
        # Appended, not replaced: another process may read the list meanwhile.
        with blocks.open("ab") as file:
            file.write((b"" if written.endswith(b"\n") or not written else b"\n") + line)


def _read_known_rows(blocks: Path, wanted: Collection[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """Return the wanted rows that the blocks contain; the newest block counts."""
    rows_by_name: dict[bytes, NDArray[np.float32]] = {}
    listed = []
    if blocks.is_file():
        listed = blocks.read_text(encoding="utf-8", errors="replace").split()
    for block in reversed(listed):
        for name, row in _read_block(blocks.parent / Path(block).name, wanted):
            rows_by_name.setdefault(name, row)
        if len(rows_by_name) == len(wanted):
            break
    return rows_by_name


def _read_block(
    folder: Path, wanted: Collection[bytes]
) -> list[tuple[bytes, NDArray[np.float32]]]:
    """Return the wanted rows of a block; none if the block is missing or damaged."""
    import numpy as np

    # Opening a pipe would wait for a writer without end.
    if not (folder / NAMES).is_file() or not (folder / ROWS).is_file():
        return []
    try:
        names = np.load(folder / NAMES, allow_pickle=False)
        rows = np.load(folder / ROWS, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return []
    if names.shape != (len(rows), _NAME_BYTES) or rows.ndim != 2 or rows.dtype != np.float32:
        return []
    wanted_rows = []
    for name, row in zip(names, rows, strict=True):
        if name.tobytes() in wanted:
            wanted_rows.append((name.tobytes(), row))
    # The file is hashed last, and only if it has something to give.
    return wanted_rows if wanted_rows and is_unchanged(folder) else []
