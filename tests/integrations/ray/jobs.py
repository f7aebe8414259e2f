"""Jobs that nodes run in the tests of the executors."""

import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.processes import until


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
    for name in ("rows", "names"):
        (folder / name).write_text(f"{name} of {part.read_text()}")


def note_and_wait(started: str, last: str) -> str:
    """Note in a folder of this machine which process began it, wait for a file, and return which process ended it."""
    Path(started, f"{os.getpid()} {uuid.uuid4().hex}").touch()
    until(Path(last).exists)
    return str(os.getpid())


def count(file: str, last: str) -> int:
    """Write a number every twentieth of a second, never half of it, until there is another file."""
    done = 0
    while not Path(last).exists():
        done += 1
        written = Path(f"{file}.new")
        written.write_text(str(done))
        written.replace(file)
        time.sleep(0.05)
    return done
