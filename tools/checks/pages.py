"""The site has every page and public function; the changelog is short and begins with the version of the package."""

from collections.abc import Iterator
from pathlib import Path

import advisor

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
UNRELEASED = "Unreleased"
MOST_LINES = 60
"""Lines of a version in the changelog, its headings and blank lines too. Figures are in ``docs/changes``."""


def problems() -> Iterator[str]:
    """Yield one line for each page and public name that is missing, and for what is wrong in the changelog."""
    listed = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        if not name.startswith("decisions/0") and f": {name}\n" not in listed:
            yield f"docs/{name}: not in the site; add it to 'nav' of mkdocs.yml"
    reference = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    for name in advisor.__all__:
        if name != "__version__" and f"::: advisor.{name}\n" not in reference:
            yield f"docs/reference/python.md: lacks advisor.{name}; add '::: advisor.{name}'"
    yield from changelog_problems((PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"), advisor.__version__)


def changelog_problems(text: str, version: str) -> Iterator[str]:
    """Yield one line for each rule that a changelog breaks.

    Args:
        text: the changelog; each heading of the second level is a version with its date, or "Unreleased".
        version: the version of the package.
    """
    sections = text.split("\n## ")[1:]
    titles = [section.partition("\n")[0] for section in sections]
    if titles[:1] != [UNRELEASED]:
        yield f"CHANGELOG.md: begins with {titles[:1]}; the first section is '## {UNRELEASED}'"
    versions = [title.partition(" ")[0] for title in titles if title != UNRELEASED]
    if versions[:1] != [version]:
        yield f"CHANGELOG.md: its newest version is {versions[:1]}, and advisor/version.py says {version}"
    for title, section in zip(titles, sections, strict=True):
        lines = section.count("\n")
        if title != UNRELEASED and lines > MOST_LINES:
            yield f"CHANGELOG.md: '{title}' has {lines} lines, at most {MOST_LINES}; move figures to docs/changes"
