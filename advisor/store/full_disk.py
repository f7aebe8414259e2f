"""A full disk, said plainly: it reaches us as errors of many kinds, also as text from a child process."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path

from advisor.core.errors import StageError
from advisor.core.units import show_bytes

_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SAID = re.compile(
    r"no space left on device|disk quota exceeded|file too large|\d+ requested and \d+ written", re.IGNORECASE
)
"""What the system says, and what numpy says of an array that it could not write whole."""


def is_full_disk(error: BaseException) -> bool:
    """True where an error says that the disk is full, or that a file may not grow further."""
    return (isinstance(error, OSError) and error.errno in _CODES) or bool(_SAID.search(str(error)))


def full_disk(place: Path) -> StageError:
    """Return the error to raise where ``place`` could not take what was to be written."""
    existing = next(path for path in (place, *place.absolute().parents) if path.is_dir())
    free = show_bytes(shutil.disk_usage(existing).free)
    return StageError(
        f"the disk is full: '{place}' could not be written ({free} free)",
        "make room, or set ADVISOR_CACHE_DIR to another disk; what is done is kept, and search --resume goes on",
    )
