"""Check an existing run folder before anything is read or written through it.

A run may come from somebody else. ``RunFolder.open`` refuses one with an entry that is a pipe or a
device, or that leads out of the folder, and one that a newer version wrote.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from advisor.core import UsageError
from advisor.store._files import walk_folder
from advisor.store._run_documents import SCHEMA_VERSION
from advisor.store._yamlfile import YamlDocument

REQUEST_BYTES = 4 * 2**20  # Largest request in bytes: a command line is at most half as long


def require_run_folder(path: Path) -> Path:
    """Return the resolved path of a run folder that can be read and written.

    UsageError if it is not a run folder, its request is damaged, or its schema is newer; or an
    entry at any level is a pipe or a device, or leads out of the folder: nothing may be read or
    written through such an entry.
    """
    request = path / "request.yaml"
    if not request.is_file() and (path / "artifacts").is_dir():
        raise UsageError(
            f"the search in '{path}' was ended before it began",
            "there is nothing to continue: start it again",
        )
    if not request.is_file():
        raise UsageError(
            f"'{path}' is not a run folder (no request.yaml)",
            "runs are under runs/, the newest at runs/latest",
        )
    root = path.resolve()
    _require_plain_entries(path, root)
    version = read_request_file(request).get("schema_version", 0)
    if not isinstance(version, int):
        raise _damage_error(request, f"its schema_version is '{version}'")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"'{path}' was written by a newer advisor (schema {version}, this one reads"
            f" {SCHEMA_VERSION})",
            "upgrade advisor to open it",
        )
    return root


def _require_plain_entries(path: Path, root: Path) -> None:
    """Refuse a run with a pipe, a device, or a link out of it; ``root`` is its resolved path."""
    for top, folders, files in walk_folder(root):
        for entry in map(top.joinpath, (*folders, *files)):
            # Files that a running search replaces are gone.
            if not _is_inside(entry, root) and os.path.lexists(entry):
                name = entry.relative_to(root)
                raise UsageError(
                    f"the run folder '{path}' is damaged: {name} is neither a file nor a folder in"
                    " it",
                    f"remove {name}, or restore it",
                )


def _is_inside(entry: Path, root: Path) -> bool:
    """Return whether an entry is a file or a folder that does not lead out of ``root``."""
    if not (entry.is_file() or entry.is_dir()):
        return False
    return not entry.is_symlink() or entry.resolve().is_relative_to(root)


def read_request_file(file: Path) -> dict[str, Any]:
    """Return the content of ``request.yaml``; UsageError if it is damaged."""
    try:
        content = YamlDocument.read(file, REQUEST_BYTES).values
    except UsageError as error:
        raise _damage_error(file, error.message.removeprefix(str(file)).lstrip(": ")) from None
    if not isinstance(content, dict):
        raise _damage_error(file, "it is not a mapping")
    return content


def _damage_error(file: Path, why: str) -> UsageError:
    return UsageError(
        f"the run folder '{file.parent}' is damaged: {file.name} cannot be read ({why})",
        "restore this file; advisor does not change the other files of the run",
    )
