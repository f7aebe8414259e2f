"""Recognise a full disk, which causes many kinds of errors, and report it with one clear error."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path

from advisor.core.errors import StageError
from advisor.core.units import show_bytes

_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MESSAGES = re.compile(
    r"no space left on device|disk quota exceeded|file too large|\d+ requested and \d+ written", re.IGNORECASE
)
"""Messages of the system, and of numpy for an array that it could not write completely."""


def is_full_disk(error: BaseException) -> bool:
    """Return True if an error says that the disk is full, or that a file must not become larger."""
    return (isinstance(error, OSError) and error.errno in _CODES) or bool(_MESSAGES.search(str(error)))


def full_disk(path: Path) -> StageError:
    """Return the error to raise if the disk was full while writing to ``path``."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    free = show_bytes(shutil.disk_usage(existing).free)
    return StageError(
        f"the disk is full: cannot write '{path}' ({free} free)",
        "free some space, or set ADVISOR_CACHE_DIR to another disk; then continue with search --resume",
    )
