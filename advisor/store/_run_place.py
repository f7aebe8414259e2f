"""Make the folder of a new run under ``runs/``, and link ``runs/latest`` to it.

``RunFolder.create`` calls :func:`make_run_folder` before a search spends anything. Users and
scripts know the names: ``<date>-<time>-<slug>`` and ``latest`` are a part of the product's
contract.
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import datetime
from pathlib import Path

from advisor.core import UsageError

GITIGNORE = """\
# What a re-evaluation reads: the request and the answers. The files of models and the reports
# stay out of git.
*
!.gitignore
!request.yaml
!manifest.json
!evaluations.jsonl
!dataset.json
!split.json
!inputs.json
!answers/
!answers/*
!catalogs/
!catalogs/*
"""
"""Content of ``.gitignore`` in a run folder."""

COPY_RUN = "copy the run to another folder, and name it there"
"""The hint where the folder of a run cannot be written."""

# Letters of a run's name behind its time: enough for the images and a device.
LONGEST_SLUG = 60
MOST_NAMESAKES = 1000  # Runs of one name that begin in one second


def make_run_folder(out: Path, slug: str, now: datetime, is_latest: bool) -> Path:
    """Return a new folder ``out/<date>-<time>-<slug>``, to which ``out/latest`` leads if asked.

    UsageError if it cannot be made, or ``out/latest`` is no link.
    """
    latest = out / "latest"
    if is_latest and latest.exists() and not latest.is_symlink():
        raise UsageError(
            f"--out: '{latest}' is no link, and the link to the newest run would replace it",
            "move it away, or choose another folder, for example --out other-runs",
        )
    plain_slug = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")
    short_slug = plain_slug[:LONGEST_SLUG].strip("-") or "run"
    try:
        out.mkdir(parents=True, exist_ok=True)
        path = _make_unique_folder(out, f"{now.strftime('%Y%m%d-%H%M%S')}-{short_slug}")
        (path / "artifacts").mkdir()
        (path / ".gitignore").write_text(GITIGNORE, encoding="utf-8")
        if is_latest:
            link_latest(out, path.name)
    except OSError as error:
        why = f"cannot write to the folder '{out}' ({error.strerror or error})"
        # A re-evaluation is written beside its parent run, and no option names another folder.
        if not is_latest:
            raise UsageError(why, COPY_RUN) from None
        raise UsageError(
            f"--out: {why}", "choose another folder, for example --out runs"
        ) from None
    return path


def _make_unique_folder(out: Path, name: str) -> Path:
    """Return a new folder of this name, with a number behind it if there is one already."""
    for suffix in ("", *(f"-{count}" for count in range(2, MOST_NAMESAKES))):
        path = out / f"{name}{suffix}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path.resolve()
    raise FileExistsError(f"{out / name} and {MOST_NAMESAKES - 2} others exist")


def find_latest_run(out: Path) -> Path | None:
    """Return the run that ``out/latest`` leads to; None if it leads to no folder."""
    latest = out / "latest"
    return latest.resolve() if latest.is_dir() else None


def link_latest(out: Path, name: str) -> None:
    """Make ``out/latest`` lead to a run in one step: a reader sees the old one or the new one."""
    unfinished = out / f".latest-{os.getpid()}"
    unfinished.unlink(missing_ok=True)  # of a killed process with the same id
    unfinished.symlink_to(name)
    unfinished.replace(out / "latest")


def require_parent(out: Path) -> None:
    """Refuse a folder that cannot take a run, before a search spends anything: UsageError.

    Nothing is made.
    """
    place = out.absolute()
    nearest = next(path for path in (place, *place.parents) if path.exists())
    why = ""
    if not nearest.is_dir():
        why = f"'{nearest}' is a file"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        why = f"no permission in '{nearest}'"
    if why:
        message = f"--out: cannot write to the folder '{out}' ({why})"
        raise UsageError(message, "choose another folder, for example --out runs")
