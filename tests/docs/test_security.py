"""The page on security names every native library."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.places import PROJECT

NATIVE = {".so", ".pyd", ".dylib"}

IMPORT = re.compile(r"^ *(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)
"""A line that imports; to parse every module takes thirty times as long."""


def imported_packages() -> set[str]:
    """Return the packages of others that a module of the product imports anywhere."""
    names = set[str]()
    for module in (PROJECT / "advisor").rglob("*.py"):
        for direct, source in IMPORT.findall(module.read_text(encoding="utf-8")):
            names.add(direct or source)
    return names - set(sys.stdlib_module_names)


def is_native(package: str) -> bool:
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return any(path.suffix in NATIVE for folder in folders or () for path in Path(folder).rglob("*.*"))


@pytest.mark.integration
def test_all_native_libraries_that_are_imported_are_listed_with_what_they_read_and_where() -> None:
    page = (PROJECT / "docs" / "security-files.md").read_text(encoding="utf-8")
    section = page.partition("## Native libraries\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    others = section.partition("These read no files of others:")[2].partition(".\n")[0]
    listed = {name for text in (*cells, others) for name in re.findall(r"`(\w+)`", text)}
    imported = imported_packages()
    assert {package for package in imported - listed if is_native(package)} == set()
    assert listed - imported == set()
