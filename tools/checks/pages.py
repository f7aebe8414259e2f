"""Check that the site has every page and function, and that changelog and decisions are short.

Decisions are few and listed. The number of a decision that was merged into another one is refused,
with the number that holds now.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import advisor

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
UNRELEASED = "Unreleased"
MOST_LINES = 60
"""Lines of a version in the changelog, its headings and blank lines too.
Figures are in ``docs/changes``.
"""
MOST_DECISIONS = 35
MOST_STUDIES = 12
DECISION_LINES = range(10, 26)
REFERENCE = re.compile(r"(?:[Dd]ecisions? |decisions/)(0\d{3})")
READERS = ("advisor", "benchmarks", "docs", "tests", "tools")
"""Folders whose texts may refer to decisions, beside the files of the top folder."""


def problems() -> Iterator[str]:
    """Yield one line for each page and public name that is missing,
    and for what is wrong in the changelog.
    """
    listed = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        if not name.startswith("decisions/0") and f": {name}\n" not in listed:
            yield f"docs/{name}: not in the site; add it to 'nav' of mkdocs.yml"
    reference = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    for name in advisor.__all__:
        if name != "__version__" and f"::: advisor.{name}\n" not in reference:
            yield f"docs/reference/python.md: lacks advisor.{name}; add '::: advisor.{name}'"
    yield from changelog_problems(
        (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"), advisor.__version__
    )
    yield from decision_problems()
    yield from reference_problems()


def decision_problems() -> Iterator[str]:
    """Yield one line for each decision that is too long or too short or not in the index,
    and for too many pages.
    """
    decisions = sorted((DOCS / "decisions").glob("0*.md"))
    if len(decisions) > MOST_DECISIONS:
        yield (
            f"docs/decisions: {len(decisions)} pages, at most {MOST_DECISIONS}; merge those of one"
            " subject"
        )
    studies = sorted((DOCS / "studies").glob("*.md"))
    if len(studies) > MOST_STUDIES:
        yield (
            f"docs/studies: {len(studies)} pages, at most {MOST_STUDIES}; add a section to the"
            " page of the topic"
        )
    index = _index_of_decisions()
    for path in decisions:
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines not in DECISION_LINES:
            yield f"docs/decisions/{path.name}: {lines} lines, not 10 to 25; figures go to a study"
        if f"| [{path.name[:4]}]({path.name}) |" not in index:
            yield f"docs/decisions/{path.name}: not in docs/decisions/README.md"
    for path in studies:
        if f"(../studies/{path.name})" not in index:
            yield f"docs/studies/{path.name}: not in docs/decisions/README.md"


def reference_problems() -> Iterator[str]:
    """Yield one line for each text that refers to a decision by a number that has no page."""
    current = {path.name[:4] for path in (DOCS / "decisions").glob("0*.md")}
    merged = dict(re.findall(r"^\| (0\d{3}) \| \[(0\d{3})\]", _index_of_decisions(), re.MULTILINE))
    for path in _texts():
        for number in sorted(set(REFERENCE.findall(path.read_text(encoding="utf-8"))) - current):
            hint = f"now {merged[number]}" if number in merged else "there is no such page"
            yield f"{path.relative_to(PROJECT).as_posix()}: names decision {number}; {hint}"


def _index_of_decisions() -> str:
    return (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")


def _texts() -> Iterator[Path]:
    for folder in (PROJECT, *(PROJECT / name for name in READERS)):
        paths = folder.glob("*") if folder == PROJECT else folder.rglob("*")
        for path in sorted(paths):
            if path.suffix in {".md", ".py", ".yml", ".toml"} and path.is_file():
                yield path


def changelog_problems(text: str, version: str) -> Iterator[str]:
    """Yield one line for each rule that a changelog breaks.

    Args:
        text: the changelog; each heading of the second level is a version with its date, or
            "Unreleased".
        version: the version of the package.
    """
    sections = text.split("\n## ")[1:]
    titles = [section.partition("\n")[0] for section in sections]
    if titles[:1] != [UNRELEASED]:
        yield f"CHANGELOG.md: begins with {titles[:1]}; the first section is '## {UNRELEASED}'"
    versions = [title.partition(" ")[0] for title in titles if title != UNRELEASED]
    if versions[:1] != [version]:
        yield (
            f"CHANGELOG.md: its newest version is {versions[:1]}, and advisor/version.py says"
            f" {version}"
        )
    for title, section in zip(titles, sections, strict=True):
        lines = section.count("\n")
        if lines > MOST_LINES:
            yield (
                f"CHANGELOG.md: '{title}' has {lines} lines, at most {MOST_LINES}; move figures to"
                " docs/changes"
            )
