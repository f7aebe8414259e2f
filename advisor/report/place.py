"""Where report files may be written."""

from __future__ import annotations

from pathlib import Path

from advisor.core.errors import UsageError

REPORT_FILES = ("recommendation.json", "front.csv", "report.md", "report.html")


def checked_place(folder: Path, force: bool = False) -> Path:
    """Make the folder for the report files and return it.

    Raises:
        UsageError: it is a run folder or a file, it cannot be made, or it holds report files and ``force`` is not set.
    """
    if (folder / "request.yaml").exists():
        raise UsageError(
            f"--to: '{folder}' is a run folder: its report answers its own question", "choose another folder"
        )
    present = [name for name in REPORT_FILES if (folder / name).exists()]
    if present and not force:
        raise UsageError(
            f"--to: '{folder}' already holds {', '.join(present)}", "choose another folder, or add --force to replace"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--to: the folder '{folder}' cannot be made ({error.strerror or error})", "choose another folder"
        ) from None
    return folder
