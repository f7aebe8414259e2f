"""Find labels that differ only by case or blanks and so mean one class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping


def canonical(labels: Iterable[str], declared: Iterable[str] = ()) -> dict[str, str]:
    """Return the class name of each label as written: the most frequent spelling, then the first.

    Args:
        labels: the label of each image.
        declared: class names that may have no image.
    """
    counts = Counter(labels)
    for name in declared:
        counts.setdefault(name, 0)
    leader: dict[str, str] = {}
    for written in sorted(counts, key=lambda name: (-counts[name], name)):
        leader.setdefault(_plain(written), written)
    return {written: leader[_plain(written)] for written in counts}


def variants(names: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of spellings of one class, from the result of :func:`canonical`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for written, name in names.items():
        groups[name].append(written)
    return tuple(tuple(sorted(group)) for _, group in sorted(groups.items()) if len(group) > 1)


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
