"""Folders, links, archives and programs that lie about themselves: commands end in words, and spare what is there."""

import os
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.hostile_surfaces.attacks import Case as Attack, build, read_cases, wrong
from benchmarks.hostile_surfaces.attempts import HANG
from benchmarks.hostile_surfaces.ground import WRONG, Case, Ground, found

FILES = ("commands.yaml", "places.yaml")


def cases(ground: Ground) -> Iterator[Case]:
    """Yield the cases of the tables."""
    for file in FILES:
        for name, attack in read_cases(file).items():
            yield name, partial(_tried, ground, attack)


def _tried(ground: Ground, attack: Attack) -> Sequence[str]:
    place = ground.fresh()
    build(place, attack)
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    try:
        code, out, err = ground.said(
            place,
            *attack.arguments,
            PATH=path,
            ADVISOR_CACHE_DIR=str(place / "cache"),
            ADVISOR_CONFIG_DIR=str(place / "config"),
        )
    except TimeoutError:
        return (HANG,)
    return (*found(code, out, err), *((WRONG,) if wrong(place, attack, code, out, err) else ()))
