"""Guard and write the folder of a bundle.

The export calls :func:`require_replaceable` first, before it reads the run, and
:func:`replace_bundle` last, with all files in memory. ``--force`` deletes a folder of the user, so
a folder counts as a bundle only if ``SHA256SUMS`` and ``bundle.json`` are in it, and only if it
holds nothing else.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from advisor.core import UsageError, listed
from advisor.reporting._bundle import check


def require_replaceable(folder: Path, force: bool) -> Path:
    """Return the folder if it is free, or a bundle to replace with ``force``;
    anything else is refused.
    """
    if folder.is_symlink():
        raise UsageError(f"--to: '{folder}' is a link", "name the folder that it leads to")
    if not folder.exists():
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        if not parent.is_dir():
            raise UsageError(
                f"--to: '{parent}' is a file, so it cannot hold a folder", "choose another folder"
            )
        return folder
    if folder.is_dir() and not any(folder.iterdir()):
        return folder
    # A mistyped --to must not delete a folder of the user's own, so only a bundle is replaced.
    if not (folder / "SHA256SUMS").is_file() or not (folder / "bundle.json").is_file():
        raise UsageError(
            f"--to: '{folder}' exists and is not a bundle of advisor", "choose another folder"
        )
    if not force:
        raise UsageError(
            f"--to: '{folder}' already holds a bundle",
            "choose another folder, or add --force to replace",
        )
    # The folder is replaced as a whole, so what the user put into it would be lost.
    others = _other_files(folder)
    if others:
        raise UsageError(
            f"--to: '{folder}' holds files that are not of the bundle: {listed(others, 3)}",
            "move them, or choose another folder: --force replaces the folder",
        )
    return folder


def _other_files(folder: Path) -> list[str]:
    """Return the files and links in the folder of a bundle that its list does not name.

    What Python keeps beside code that has run, ``__pycache__/NAME.pyc``,
    is made anew and counts for nothing.
    """
    lines = (folder / check.SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    listed_names = {check.SUMS, check.SIGNATURE, *(line.partition("  ")[2] for line in lines)}
    others = []
    for path in check.entries_in(folder):
        name = path.relative_to(folder).as_posix()
        is_bytecode = path.parent.name == "__pycache__" and path.suffix == ".pyc"
        is_of_bundle = path.is_dir() or is_bytecode or name in listed_names
        # A bundle has no links, so a link of any name was put there by somebody.
        if path.is_symlink() or not is_of_bundle:
            others.append(name)
    return others


def replace_bundle(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files by their paths beside the folder, then move it there:
    a reader sees the old bundle or the new one.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder, so that the move stays within one file system.
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UsageError(
            f"--to: '{folder}' cannot be written ({error.strerror or error})",
            "choose another folder",
        ) from None
    try:
        for name, content in contents.items():
            file = unfinished / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        # A temporary folder is made for its user alone, and a bundle is to be read by others.
        unfinished.chmod(0o755)
        if folder.is_dir():
            shutil.rmtree(folder)
        unfinished.replace(folder)
    except BaseException:
        # An interruption with Ctrl-C leaves nothing behind either.
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
