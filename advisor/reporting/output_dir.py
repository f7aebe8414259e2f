"""Where report files may be written."""

from __future__ import annotations

from pathlib import Path

from advisor.core.errors import UsageError
from advisor.store.files import ensure_output_dir

REPORT_FILES = ("recommendation.json", "front.csv", "report.md", "report.html")


def checked_place(folder: Path, force: bool = False) -> Path:
    """Make the folder for the report files and return it.

    Raises:
        UsageError: it is a run folder or a file, it cannot be made, or it holds report files and ``force`` is not set.
    """
    if (folder / "request.yaml").exists():
        raise UsageError(
            f"--to: '{folder}' is a run folder, which keeps the report of its own question", "choose another folder"
        )
    ensure_output_dir(folder, REPORT_FILES, force)
    return folder
