"""Jobs that nodes run in the tests of the executors."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Named:
    """A value with a file in it, as weights are handed to a conversion."""

    path: Path
    name: str


def join(parts: tuple[Path, ...], named: Named, out: Path) -> list[str]:
    """Write the contents one after the other, and return the names of the files."""
    out.write_text("".join(path.read_text() for path in (*parts, named.path)))
    return [path.name for path in (*parts, named.path)]


def fill(part: Path, folder: Path) -> None:
    """Write two files into a folder."""
    for name in ("rows", "names"):
        (folder / name).write_text(f"{name} of {part.read_text()}")


def note_and_wait(started: str, seconds: float) -> str:
    """Note in a folder of this machine that it began, wait, and return which process ended it."""
    Path(started, uuid.uuid4().hex).write_text("began")
    time.sleep(seconds)
    return str(os.getpid())


def count(file: str, seconds: float) -> int:
    """Write a number every twentieth of a second, never half of it; stands still while it is stopped."""
    done, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        done += 1
        written = Path(f"{file}.new")
        written.write_text(str(done))
        written.replace(file)
        time.sleep(0.05)
    return done
