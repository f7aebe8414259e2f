"""Limit what makes the package hard to read: doors between rooms that are passed by, dense lines, and names.

``python -m tools.checks.structure`` prints each figure beside its limit, and with the name of a figure the places that
it counts. ``limits.yaml`` keeps the limits. Lines, modules and imports have none: a limit on them packs the code.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.checks.structure.density import measure_density
from tools.checks.structure.rooms import measure_rooms
from tools.checks.structure.source import Figure, read_package

ROOT = Path(__file__).resolve().parents[3]
LIMITS = Path(__file__).with_name("limits.yaml")
PACKAGE = "advisor"


@cache
def measure(root: Path) -> Mapping[str, Figure]:
    """Return the figures by name of the project in a folder."""
    modules = read_package(root, PACKAGE)
    tests = [path.read_text(encoding="utf-8") for path in (root / "tests").rglob("*.py")]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        **measure_rooms(modules),
        **measure_density(modules),
        "lines of tests": Figure(sum(len(text.splitlines()) for text in tests)),
        "required dependencies": Figure(len(project["dependencies"])),
    }


def problems() -> list[str]:
    """Return a line for each figure of the project that is beyond its limit."""
    return problems_of(measure(ROOT), yaml.safe_load(LIMITS.read_text(encoding="utf-8")))


def problems_of(figures: Mapping[str, Figure], limits: Mapping[str, Any]) -> list[str]:
    """Return a line for each figure above what it may be at most or below what it must be at least.

    A figure without a limit is a problem too, and so is a limit without a figure.
    """
    most = limits["at most"]
    least = limits["at least"]
    lines = [f"limits.yaml: '{name}' is limited once, and measured" for name in {*most, *least} ^ {*figures}]
    lines += [f"limits.yaml: '{name}' is limited twice" for name in {*most} & {*least}]
    for name, figure in figures.items():
        see = (
            f"python -m tools.checks.structure '{name}'" if figure.places else "the docstring of tools.checks.structure"
        )
        if name in most and figure.value > most[name]:
            lines.append(f"{name}: {figure.value:g}, at most {most[name]:g}: make it smaller, see {see}")
        if name in least and figure.value < least[name]:
            lines.append(f"{name}: {figure.value:g}, at least {least[name]:g}: make it larger, see {see}")
    return lines
