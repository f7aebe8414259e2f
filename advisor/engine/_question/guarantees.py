"""Parse what a user asks of a classifier's thresholds: least precision, recall and coverage.

Options hold texts such as ``95%,trash=90%``. ``parsing.py`` turns them into
:class:`~advisor.core.Guarantees`. :func:`require_classes` compares their names with the classes as
soon as the images are read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.core import (
    Guarantees,
    Shares,
    UsageError,
    nearest,
    units,
)

PRECISION = "--min-precision"
RECALL = "--min-recall"
COVERAGE = "--min-coverage"

SHARES = (0.5, 0.995)
COVERAGES = (0.01, 0.995)
"""Least and largest share of ``--min-precision`` and ``--min-recall``, and of
``--min-coverage``.
"""


def parse_guarantees(precision: Sequence[str], recall: Sequence[str], coverage: str) -> Guarantees:
    """Return what the user asks of thresholds.

    ``precision`` and ``recall`` are texts such as ``95%``, ``trash=90%`` or ``95%,trash=90%``,
    ``coverage`` one such as ``80%``, empty if none is asked.
    """
    least_coverage = None
    if coverage:
        hint = _explain_limit(COVERAGE, "80%")
        least_coverage = units.parse_share(coverage, COVERAGE, COVERAGES, hint)
    return Guarantees(
        _parse_shares(precision, PRECISION), _parse_shares(recall, RECALL), least_coverage
    )


def _parse_shares(texts: Sequence[str], option: str) -> Shares:
    """Return the shares of an option, whose texts are divided at commas after a percent sign.

    A class's name is what stands before the last ``=``, so that it may hold both characters.
    """
    shares: dict[str | None, float] = {}
    parts = list[str]()
    for text in texts:
        parts += re.split(r"(?<=%)\s*,", text)
    for text in filter(None, map(str.strip, parts)):
        name, separator, share_text = text.rpartition("=")
        key = name.strip() if separator else None
        share = units.parse_share(
            share_text.strip(), option, SHARES, _explain_limit(option, "95%")
        )
        if key in shares:
            repeated = "a share for all classes" if key is None else f"a share for '{key}'"
            raise UsageError(f"{option}: {repeated} is given twice", "leave one of them out")
        shares[key] = share
    for_all = shares.pop(None, None)
    by_class = {name: share for name, share in shares.items() if name is not None}
    return Shares(for_all, by_class)


def _explain_limit(option: str, example: str) -> str:
    """Return the hint for a share that is too small or too large."""
    return f"nothing can be guaranteed for all images: write for example {option} {example}"


def require_classes(guarantees: Guarantees, classes: Sequence[str]) -> None:
    """Refuse a guarantee for a class that the images do not have."""
    for option, shares in ((PRECISION, guarantees.precision), (RECALL, guarantees.recall)):
        for name in shares.by_class:
            if name not in classes:
                raise UsageError(
                    f"{option}: unknown class '{name}'{nearest(name, classes)}",
                    f"classes: {units.listed(classes, 20)}",
                )
