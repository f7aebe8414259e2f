"""Commands on damaged run folders, and what is wrong with what they say."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.hostile_surfaces.damages import WHOLE, Damage, text, wrong_types

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


def faults(code: int, out: str, err: str) -> tuple[str, ...]:
    """Return what is wrong with what a command said, in a word or two each."""
    found = {
        "internal error": "internal error" in err or code not in (0, 2, 3, 4),
        "traceback": "Traceback" in err,
        "control character": _STEERING.search(out + err) is not None,
        "no hint": code == 2 and "hint:" not in err and "Try '" not in err,
    }
    return tuple(name for name, wrong in found.items() if wrong)


def damages(run: Path) -> Iterator[tuple[str, str, Damage]]:
    """Yield the name of a document of a run folder, what is damaged, and the damage."""
    for file in sorted(path for path in run.iterdir() if path.suffix in (".json", ".jsonl", ".yaml")):
        for label, damage in WHOLE.items():
            yield file.name, label, damage
        wrong = list(wrong_types(file))
        for label, content in random.Random(file.name).sample(wrong, min(SAMPLE, len(wrong))):
            yield file.name, label, text(content)
