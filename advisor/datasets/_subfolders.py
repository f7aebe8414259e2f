"""List the folders inside a folder."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.core import UsageError
from advisor.datasets._folders import is_system_name


def folders_in(root: Path) -> list[Path]:
    """Return the folders directly inside ``root``, sorted, without hidden ones.

    Raises UsageError if the folder cannot be read, or a name in it is not valid UTF-8.
    """
    try:
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not is_system_name(entry.name))
    except OSError as error:
        raise UsageError(f"--data: '{root}' cannot be read: {error.strerror}", "check its permissions") from error
    for folder in folders:
        try:
            folder.name.encode()
        except UnicodeEncodeError:
            message = f"--data: the class folder {os.fsencode(folder.name)!r} has a name that is not valid UTF-8"
            raise UsageError(message, "rename it") from None
    return folders
