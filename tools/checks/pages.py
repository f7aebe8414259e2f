"""Every page of the documentation is in a section of the site, and every public function in its reference."""

from collections.abc import Iterator
from pathlib import Path

import advisor

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"


def problems() -> Iterator[str]:
    """Yield one line for each page and for each public name that is missing."""
    listed = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        if not name.startswith("decisions/0") and f": {name}\n" not in listed:
            yield f"docs/{name}: not in the site; add it to 'nav' of mkdocs.yml"
    reference = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    for name in advisor.__all__:
        if name != "__version__" and f"::: advisor.{name}\n" not in reference:
            yield f"docs/reference/python.md: lacks advisor.{name}; add '::: advisor.{name}'"
