"""The thresholds that a user asks for: shares for all classes, and for single ones by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.core import units
from advisor.core.errors import UsageError, nearest
from advisor.core.guarantees import Guarantees, Shares

SHARES, COVERAGES = (0.5, 0.995), (0.01, 0.995)
"""Least and largest share of ``--min-precision`` and ``--min-recall``, and of ``--min-coverage``."""

PRECISION, RECALL, COVERAGE = "--min-precision", "--min-recall", "--min-coverage"


def parse_guarantees(precision: Sequence[str], recall: Sequence[str], coverage: str) -> Guarantees:
    """Return what the user asks of thresholds.

    Args:
        precision: texts such as ``95%``, ``trash=90%`` or ``95%,trash=90%``.
        recall: as ``precision``.
        coverage: a text such as ``80%``; empty for no wish.

    Raises:
        UsageError: no share with its unit, one that cannot be guaranteed, or two for one class.
    """
    return Guarantees(
        _shares(precision, PRECISION),
        _shares(recall, RECALL),
        units.share(coverage, COVERAGE, COVERAGES, _hint(COVERAGE, "80%")) if coverage else None,
    )


def require_classes(guarantees: Guarantees, classes: Sequence[str]) -> None:
    """Refuse a guarantee for a class that the images do not have.

    Raises:
        UsageError: there is no such class.
    """
    for option, shares in ((PRECISION, guarantees.precision), (RECALL, guarantees.recall)):
        for name in shares.by_class:
            if name not in classes:
                raise UsageError(
                    f"{option}: unknown class '{name}'{nearest(name, classes)}", f"classes: {units.listed(classes, 20)}"
                )


def _shares(texts: Sequence[str], option: str) -> Shares:
    """Return the shares of an option.

    Texts are divided at commas after a percent sign. A class's name is what stands before the last ``=``, so that it
    may hold both characters.
    """
    found: dict[str | None, float] = {}
    for text in (part.strip() for each in texts for part in re.split(r"(?<=%)\s*,", each) if part.strip()):
        name, separator, written = text.rpartition("=")
        key = name.strip() if separator else None
        share = units.share(written.strip(), option, SHARES, _hint(option, "95%"))
        if key in found:
            twice = "a share for all classes" if key is None else f"a share for '{key}'"
            raise UsageError(f"{option}: {twice} is given twice", "leave one of them out")
        found[key] = share
    return Shares(found.pop(None, None), {name: share for name, share in found.items() if name is not None})


def _hint(option: str, example: str) -> str:
    return f"nothing can be guaranteed for all images: write for example {option} {example}"
