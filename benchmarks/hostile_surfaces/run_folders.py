"""Commands on run folders whose documents are damaged."""

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.hostile_surfaces.attempts import COMMANDS, damages
from benchmarks.hostile_surfaces.damages import Damage
from benchmarks.hostile_surfaces.ground import Case, Ground
from tests.run_folders import images, write_run


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each command on each damage of each document."""
    run = write_run(ground.folder / "runs", dataset=images({"cat": 10, "dog": 10})).path
    for command in COMMANDS:
        for file, label, damage in damages(run):
            yield f"{command}, {file}, {label}", partial(_tried, ground, run, command, file, damage)


def _tried(ground: Ground, run: Path, command: str, file: str, damage: Damage) -> Sequence[str]:
    place = ground.fresh()
    shutil.copytree(run, place / "damaged", symlinks=True)
    damage(place / "damaged" / file)
    places = {"RUN": "damaged", "OTHER": str(run)}
    return ground.command_in(place, *(places.get(word, word) for word in COMMANDS[command]))
