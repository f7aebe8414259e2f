"""The terms that answers and reports use, each explained in a few sentences."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from advisor.core.errors import UsageError, nearest


@dataclass(frozen=True)
class Term:
    """A term.

    Attributes:
        name: as reports write it.
        text: what it means, in a few sentences.
        page: where the documentation says more: a file in ``docs/`` and the heading in it.
        also: other names.
    """

    name: str
    text: str
    page: str
    also: tuple[str, ...] = ()


def terms() -> tuple[Term, ...]:
    """Return all terms by name."""
    import yaml

    text = files("advisor.reporting").joinpath("glossary.yaml").read_text(encoding="utf-8")
    return tuple(
        Term(name, entry["text"], entry["page"], tuple(entry.get("also", ())))
        for name, entry in yaml.safe_load(text).items()
    )


def term(name: str) -> Term:
    """Return the term with this name or other name; case, dashes and underscores do not matter.

    Raises:
        UsageError: there is none. The error names the nearest.
    """
    known = {_plain(each): found for found in terms() for each in (found.name, *found.also)}
    if _plain(name) not in known:
        raise UsageError(f"'{name}' is not explained{nearest(_plain(name), known)}", "advisor explain lists all terms")
    return known[_plain(name)]


def _plain(name: str) -> str:
    return name.casefold().replace("-", " ").replace("_", " ").strip()
