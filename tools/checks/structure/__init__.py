"""Limit what makes the package hard to read: passed faces of rooms, dense lines, and names.

``python -m tools.checks.structure`` prints each figure beside its limit, and with the name of a
figure the places that it counts. ``limits.yaml`` keeps the limits. The lines of the whole package,
the number of its modules and the imports of a module have none: a limit on them packs the code.
CONTRIBUTING.md says what to do at a limit.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.checks.structure.density import measure_density
from tools.checks.structure.rooms import measure_rooms
from tools.checks.structure.source import Figure, Module, read_package

ROOT = Path(__file__).resolve().parents[3]
LIMITS = Path(__file__).with_name("limits.yaml")
PACKAGE = "advisor"

ADVICE: Mapping[str, str] = {
    "names that cross rooms": (
        "keep a helper private to its room, or call what a face offers already"
    ),
    "modules in the longest chain of imports": (
        "import inside the function that needs it, or from a lower room"
    ),
    "syntax nodes for each line of code": (
        "give the parts of a dense statement names, one statement a line"
    ),
    "comprehensions in 1,000 lines of code": "write a nested or long comprehension as a loop",
    "comment lines for 100 lines of code": "write above a turn of the code why it is taken",
    "lines of the longest function": "move a step of it into a function",
    "lines of the largest module": "move one of its topics into a module",
    "most arguments of a function": "pass the value that has these fields",
    "private modules, %": (
        "begin the name of a module that no other room imports with an underscore"
    ),
    "lines of tests for 100 lines of the package": (
        "move rows to cases.yaml, or remove a test whose behaviour another one covers"
    ),
    "required dependencies": "use a part that is there, or make the new one an extra",
}
"""Advice for a figure that counts no places."""


@cache
def measure(root: Path) -> Mapping[str, Figure]:
    """Return the figures by name of the project in a folder."""
    modules = read_package(root, PACKAGE)
    tests = [path.read_text(encoding="utf-8") for path in (root / "tests").rglob("*.py")]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        **measure_rooms(modules),
        **measure_density(modules),
        "lines of tests for 100 lines of the package": Figure(_compare_lines(tests, modules)),
        "required dependencies": Figure(len(project["dependencies"])),
    }


def _compare_lines(tests: Sequence[str], modules: Sequence[Module]) -> float:
    """Return the lines of tests for 100 lines of the package."""
    of_tests = sum(len(text.splitlines()) for text in tests)
    of_package = sum(len(module.lines) for module in modules)
    return round(100 * of_tests / of_package, 1)


def problems() -> list[str]:
    """Return a line for each figure of the project that is beyond its limit."""
    return problems_of(measure(ROOT), yaml.safe_load(LIMITS.read_text(encoding="utf-8")))


def problems_of(figures: Mapping[str, Figure], limits: Mapping[str, Any]) -> list[str]:
    """Return a line for each figure above what it may be at most
    or below what it must be at least.

    A figure without a limit is a problem too, and so is a limit without a figure.
    """
    most = limits["at most"]
    least = limits["at least"]
    lines = [
        f"limits.yaml: '{name}' is limited once, and measured"
        for name in {*most, *least} ^ {*figures}
    ]
    lines += [f"limits.yaml: '{name}' is limited twice" for name in {*most} & {*least}]
    for name, figure in figures.items():
        if name in most and figure.value > most[name]:
            lines.append(
                f"{name}: {figure.value:g}, at most {most[name]:g}: {advise(name, figure)}"
            )
        if name in least and figure.value < least[name]:
            lines.append(
                f"{name}: {figure.value:g}, at least {least[name]:g}: {advise(name, figure)}"
            )
    return lines


def advise(name: str, figure: Figure) -> str:
    """Return what to do about a figure that is beyond its limit."""
    steps = [ADVICE[name]] if name in ADVICE else []
    if figure.places:
        steps.append(f"python -m tools.checks.structure '{name}' prints the places")
    return "; ".join(steps) or "see CONTRIBUTING.md, At a limit"
