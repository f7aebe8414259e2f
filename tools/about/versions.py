"""Say which versions a change of a module raises: by the table, and by what is made with it."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.about.callers import show_path
from tools.about.documents import Document, list_documents
from tools.about.kept_results import KeptResult, list_kept_results
from tools.about.package import FUNCTIONS, PACKAGE, Package

HEADING = "## Which version to raise"
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
VERSION = re.compile(r"`(\w+)`(?: of `([^`]+/[^`]*)`| \(`([^`]+/[^`]*)`\))?")
"""A name in the second column of the table, and the file that has it."""

OWN = ("that stage", "own class")
"""Words of the rows whose version is that of the stage, recipe or task itself."""

FOREIGN = "ONNX2TF"
"""The constant that is the version of a package of others."""

MOST = 6
"""Kept results that are listed one by one; more are listed by their files."""

NONE = (
    "none: no kept result is made with it; what it returns is made anew, or is a part of the key"
    " of what is kept"
)
ENTRIES = "a document shows its values; raise these only if an entry changes its meaning:"


@dataclass(frozen=True)
class VersionRow:
    """A row of the table: what a change is in, and the version that it raises."""

    change: str
    version: str

    @property
    def paths(self) -> list[str]:
        """The files and folders (with a slash at the end) that its first cell names."""
        return [name for name in CODE.findall(self.change) if "/" in name]

    def covers(self, path: str) -> bool:
        """Return whether a path within the package is one of its files, or in a folder of it."""
        for place in self.paths:
            if path == place or (place.endswith("/") and path.startswith(place)):
                return True
        return False


def read_rows(page: str) -> list[VersionRow]:
    """Return the rows of the table of versions in the text of its page."""
    _, _, section = page.partition(HEADING)
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and not set(cells[0]) <= {"-"}:
            rows.append(VersionRow(*cells))
    return rows[1:]


class Versions:
    """The versions of the package, and which modules raise them."""

    def __init__(self, package: Package, rows: Sequence[VersionRow]) -> None:
        self.package = package
        self.rows = rows

    @cached_property
    def results(self) -> Sequence[KeptResult]:
        """The kept results of the package."""
        return list_kept_results(self.package)

    @cached_property
    def documents(self) -> Sequence[Document]:
        """The documents of the package that have a version."""
        return list_documents(self.package)

    def find_rows(self, module: str) -> list[VersionRow]:
        """Return the rows of the table that name a module or its folder."""
        path = show_path(self.package.modules[module])
        return [row for row in self.rows if row.covers(path)]

    def find_results(self, module: str) -> list[KeptResult]:
        """Return the kept results that a module declares, or that are made with it."""
        results = []
        for result in self.results:
            modules = {part.module for part in result.made_with if part.name}
            if module in modules or module == result.owner.module:
                results.append(result)
        return results

    def list_lines(self, module: str) -> list[str]:
        """Return what to raise if results of a module change, as lines."""
        rows = self.find_rows(module)
        exact = [row for row in rows if not any(words in row.version for words in OWN)]
        lines = [self._show_row(row) for row in exact]
        results = self.find_results(module)
        if not lines or len(lines) < len(rows):
            lines += _show_results(results, len(self.results))
        return [*lines, *self._show_parts(module, results)] or [NONE]

    def _show_parts(self, module: str, results: Sequence[KeptResult]) -> list[str]:
        """Return which definitions of a module make which results, if these differ, as lines."""
        by_results = defaultdict[tuple[str, ...], list[str]](list)
        for name, nodes in self.package.definitions(module).items():
            if "." in name or not isinstance(nodes[0], (*FUNCTIONS, ast.ClassDef)):
                continue
            made = []
            for result in results:
                if any(part.owner == (module, name) for part in result.made_with):
                    made.append(result.name)
            by_results[tuple(dict.fromkeys(made))].append(name)
        if len(results) < 2 or len(by_results) < 2:
            return []
        every = list(dict.fromkeys(result.name for result in results))
        lines = []
        for made, names in by_results.items():
            lines.append(f"- {', '.join(names)}: {_count_results(made, every)}")
        return ["By its calls, a definition makes these results or a part of them:", *lines]

    def list_documents(self, module: str) -> list[str]:
        """Return the documents whose entries a module declares, as lines."""
        lines = []
        for document in self.documents:
            if any(kind.module == module for kind in document.types):
                lines.append(document.show())
        return [ENTRIES, *lines] if lines else []

    def list_constants(self) -> list[str]:
        """Return each constant that is a version, as the table names it."""
        constants = []
        for name, place in self.places.items():
            constant, _, path = name.partition(" ")
            if path and not constant.startswith(FOREIGN):
                constants.append(f"`{constant}` of `{place.rpartition(':')[0]}`")
        return constants

    @cached_property
    def places(self) -> Mapping[str, str]:
        """The place of each version: by its constant, and by what declares it."""
        places = {}
        unique = Counter(definition.name for definition in self.package.references)
        for definition in self.package.references:
            if definition.name.endswith("VERSION") and not definition.name.startswith("_"):
                path = show_path(self.package.modules[definition.module])
                place = _within(self.package.place(definition))
                places[f"{definition.name} {path}"] = place
                if unique[definition.name] == 1:
                    places[definition.name] = place
        for result in self.results:
            places[result.name] = _within(result.place)
        return places

    def _show_row(self, row: VersionRow) -> str:
        """Return the version of a row with its line in the source, and what the change is in."""
        version = VERSION.sub(self._add_place, row.version)
        return f"{_plain(version)} [a change of {_plain(row.change)}]"

    def _add_place(self, match: re.Match[str]) -> str:
        name, *paths = match.groups()
        path = next(filter(None, paths), "")
        place = self.places.get(f"{name} {path}") or self.places.get(name)
        return f"{name} ({place})" if place else match[0]


def _show_results(results: Sequence[KeptResult], total: int) -> list[str]:
    """Return kept results as lines."""
    if not results:
        return []
    if len(results) <= MOST:
        return [f"{_show_version(result)} ({_within(result.place)})" for result in results]
    by_file = defaultdict[str, list[str]](list)
    for result in results:
        path, _, line = _within(result.place).rpartition(":")
        by_file[path].append(f"{_show_version(result)} ({line})")
    lines = [f"the version of each kept result that changes; it makes {len(results)} of {total}:"]
    return lines + [f"- {path}: {', '.join(shown)}" for path, shown in by_file.items()]


def _count_results(made: Sequence[str], every: Sequence[str]) -> str:
    """Return the names of results in words; many as those of ``every`` result that are missing."""
    missing = [name for name in every if name not in made]
    if len(made) <= MOST:
        return ", ".join(made) or "none"
    if not missing:
        return f"all {len(every)}"
    others = ", ".join(missing) if len(missing) <= MOST else str(len(missing))
    return f"all {len(every)} but {others}"


def _show_version(result: KeptResult) -> str:
    """Return the version of a result in words, such as ``version "3" of cut_stage``."""
    shown = f"{result.version} of {result.name}"
    if result.further:
        shown += f", whose key has {' and '.join(result.further)}, too"
    return shown


def _within(place: str) -> str:
    return place.removeprefix(f"{PACKAGE}/")


def _plain(text: str) -> str:
    return LINK.sub(r"\1", text).replace("`", "")
