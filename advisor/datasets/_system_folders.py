"""Tell which files and folders an operating system made, so that every walk leaves them out.

All readers of folders and archives ask :func:`is_system_name`. A name that is added to the list
takes images out of data sets: their fingerprint changes, and with it all cached results.
"""

from __future__ import annotations

from collections.abc import Collection

SYSTEM_FOLDERS = frozenset(
    [
        "__macosx",
        "$recycle.bin",
        "recycler",
        "system volume information",
        "found.000",
        "lost+found",
        "@eadir",
        "@tmp",
        "@recycle",
        "@recently-snapshot",
        "#recycle",
        "#snapshot",
        "__pycache__",
    ]
)
"""Folders that macOS, Windows, Linux, Synology and QNAP put beside the files of people,
in lower case.
"""


def is_system_name(name: str) -> bool:
    """Return whether a file or folder is hidden, or one that an operating system made."""
    return name.startswith(".") or name.casefold() in SYSTEM_FOLDERS


def describe_system_folders(names: Collection[str]) -> str:
    """Return a sentence about folders of an operating system that are not read."""
    which = "folder is" if len(names) == 1 else "folders are"
    return f"The system {which} not read: {', '.join(map(repr, sorted(names)))}."
