"""Where a document of the repository is on the site, and what its links become there.

``hooks.py`` asks for each page: in the repository, links name files.
"""

import posixpath
import re
from collections.abc import Callable

MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
"""Place on the site by path in the repository;
``docs/`` is the root of the site, everything else keeps its path.
"""

SCHEMAS = "schemas"
"""Folder of the site with the JSON Schemas. The repository has none:
pages name them as code, which becomes links.
"""

_LINK = re.compile(r"(?P<text>!?\[(?:[^][]|\[[^][]*\])*\])\((?P<target>[^()\s]+)\)")
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def placed(path: str) -> str:
    """Return the place on the site of a path in the repository."""
    page = f"{path.removesuffix('.ipynb')}.md" if path.endswith(".ipynb") else path
    return MOVED.get(page, page.removeprefix("docs/"))


def mended(markdown: str, place: str, known: Callable[[str], bool]) -> str:
    """Return a page with links that are right on the site.

    Args:
        markdown: the text as in the repository.
        place: its place on the site.
        known: whether the site has a file at a place.
    """
    code: list[str] = []

    def hide(match: re.Match[str]) -> str:
        name = match[0].strip("`")
        if name.endswith(".schema.json") and known(f"{SCHEMAS}/{name}"):
            page = posixpath.dirname(source) or "."
            return f"[{name}]({posixpath.relpath(f'docs/{SCHEMAS}/{name}', page)})"
        code.append(match[0])
        return f"\0{len(code) - 1}\0"

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        there = placed(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        if not known(there):
            return match["text"][1:-1]
        new = posixpath.relpath(there, posixpath.dirname(place) or ".")
        return f"{match['text']}({new}{'#' + anchor if anchor else ''})"

    source = _source(place)
    changed = _LINK.sub(link, _CODE.sub(hide, markdown))
    return re.sub("\0(\\d+)\0", lambda match: code[int(match[1])], changed)


def _source(place: str) -> str:
    """Return the path in the repository of a place on the site."""
    back = {new: old for old, new in MOVED.items()}
    return back.get(place) or (place if place.startswith("benchmarks/") else f"docs/{place}")
