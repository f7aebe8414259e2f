"""Check that a file fits into the memory of a measuring process."""

from __future__ import annotations

from advisor.core.errors import UsageError
from advisor.core.units import show_bytes

CHILD_MEMORY_LIMIT = 3 * 10**9


def refuse_too_large(name: str, needed: int) -> None:
    """Refuse a file whose constants and activations do not fit into the memory of a measuring process.

    Args:
        name: name of the file, for the error.
        needed: bytes that it needs.

    Raises:
        UsageError: they do not fit.
    """
    import psutil

    free = int(psutil.virtual_memory().available)
    if needed > min(free, CHILD_MEMORY_LIMIT):
        limit = show_bytes(CHILD_MEMORY_LIMIT)
        raise UsageError(
            f"{name} needs {show_bytes(needed)} for its constants and activations",
            f"{show_bytes(free)} are free on this machine, and a measuring process may take {limit}",
        )
