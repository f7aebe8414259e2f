"""Make the folder that ``--to`` names, without replacing files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from advisor.core.errors import UsageError


def ensure_output_dir(folder: Path, names: Sequence[str], force: bool) -> None:
    """Make the folder for files with these names.

    Raises:
        UsageError: it cannot be made, or it contains such files and ``force`` is not set.
    """
    present = [name for name in names if (folder / name).exists()]
    if present and not force:
        raise UsageError(
            f"--to: '{folder}' already contains {', '.join(present)}",
            "choose another folder, or add --force to replace",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--to: the folder '{folder}' cannot be made ({error.strerror or error})", "choose another folder"
        ) from None
