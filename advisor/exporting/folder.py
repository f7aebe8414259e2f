"""The folder of a bundle: checked before the work, written atomically after it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from advisor.core.errors import UsageError


def checked(folder: Path, force: bool) -> Path:
    """Return the folder if it is free, or a bundle to replace with ``force``.

    Raises:
        UsageError: it holds anything else.
    """
    if not folder.exists() and not folder.is_symlink():
        return folder
    if folder.is_dir() and not any(folder.iterdir()):
        return folder
    if not (folder / "SHA256SUMS").is_file() or not (folder / "bundle.json").is_file():
        raise UsageError(f"--to: '{folder}' exists and is not a bundle of advisor", "choose another folder")
    if not force:
        raise UsageError(f"--to: '{folder}' already holds a bundle", "choose another folder, or add --force to replace")
    return folder


def write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write beside the folder, then move it there: a reader sees the old bundle or the new one, never a part.

    Args:
        folder: folder of the bundle, as :func:`checked` returned it.
        contents: bytes of each file by its path in the folder.

    Raises:
        UsageError: its parent cannot be made or written to.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UsageError(
            f"--to: '{folder}' cannot be written ({error.strerror or error})", "choose another folder"
        ) from None
    try:
        for name, content in contents.items():
            file = unfinished / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        unfinished.chmod(0o755)
        if folder.is_dir():
            shutil.rmtree(folder)
        unfinished.replace(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
