"""Labels that differ only by case or blanks mean one class, and are a slip that must be seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping


def canonical(labels: Iterable[str], declared: Iterable[str] = ()) -> dict[str, str]:
    """Return for each label as written the spelling that stands for its class: the most frequent, then the first.

    Args:
        labels: one an image.
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
    """Return the groups of spellings that stand for one class, of what :func:`canonical` gave."""
    groups: dict[str, list[str]] = defaultdict(list)
    for written, name in names.items():
        groups[name].append(written)
    return tuple(tuple(sorted(group)) for _, group in sorted(groups.items()) if len(group) > 1)


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
