"""Commands on damaged run folders, and what is wrong with what they say."""

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.hostile.damages import WHOLE, Damage, text, wrong_types

COMMANDS = {
    "report": ("report", "RUN", "--prefer", "size", "--to", "report"),
    "compare": ("compare", "RUN", "OTHER"),
    "export": ("export", "RUN", "--list"),
    "reevaluate": ("reevaluate", "RUN", "--device", "raspberry-pi-4"),
    "resume": ("search", "--resume", "RUN", "--offline", "--time-limit", "1s"),
}
"""Arguments of each command; ``RUN`` is the damaged folder and ``OTHER`` a whole one."""

SAMPLE = 60  # Wrong values that are tried in each document

HANG = "hang"
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Said(Protocol):
    """What a command left."""

    @property
    def code(self) -> int: ...
    @property
    def out(self) -> str: ...
    @property
    def err(self) -> str: ...


class Command(Protocol):
    """Runs ``advisor ARGUMENTS``; raises TimeoutError if it does not end in time."""

    def __call__(self, *arguments: str) -> Said: ...


@dataclass(frozen=True)
class Attempt:
    """One command on one damaged folder."""

    file: str  # the damaged document
    kind: str  # how it is damaged
    label: str  # the kind, and the place of a wrong value
    code: int | None  # the exit code; None if the command did not end
    faults: tuple[str, ...]  # what is wrong with what it said, see :func:`faults`
    err: str = ""  # its error output


def attempts(advisor: Command, run: Path, folder: Path, command: str) -> Iterator[Attempt]:
    """Run a command, a key of :data:`COMMANDS`, on a copy of a run folder with each damage of each document.

    ``advisor`` runs it in the parent of ``folder``, which takes the copies.
    """
    copied = folder / "damaged"
    places = {"RUN": str(copied), "OTHER": str(run), "report": str(folder / "report")}
    first, *rest = COMMANDS[command]
    for file, kind, label, damage in damages(run):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run, copied, symlinks=True)
        damage(copied / file)
        try:
            said = advisor(first, *(places.get(word, word) for word in rest))
        except TimeoutError as error:
            yield Attempt(file, kind, label, None, (HANG,), str(error))
        else:
            yield Attempt(file, kind, label, said.code, faults(said.code, said.out, said.err), said.err)


def faults(code: int, out: str, err: str) -> tuple[str, ...]:
    """Return what is wrong with what a command said, in a word or two each."""
    found = {
        "internal error": "internal error" in err or code not in (0, 2, 3, 4),
        "traceback": "Traceback" in err,
        "control character": _STEERING.search(out + err) is not None,
        "no hint": code == 2 and "hint:" not in err and "Try '" not in err,
    }
    return tuple(name for name, wrong in found.items() if wrong)


def damages(run: Path) -> Iterator[tuple[str, str, str, Damage]]:
    """Yield document, kind, label and damage."""
    for file in sorted(path for path in run.iterdir() if path.suffix in (".json", ".jsonl", ".yaml")):
        for kind, damage in WHOLE.items():
            yield file.name, kind, kind, damage
        wrong = list(wrong_types(file))
        for label, content in random.Random(file.name).sample(wrong, min(SAMPLE, len(wrong))):
            yield file.name, f"value {label.partition(' = ')[2]}", label, text(content)
