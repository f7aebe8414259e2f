"""Show what is in the cache, by kind and by run, as ``advisor cache`` prints it.

``to_json`` is the content of ``advisor cache --json``, whose keys users rely on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from advisor.store._cache_entries import CacheEntry, list_entries, sum_bytes
from advisor.store._cache_uses import CacheUse, list_uses
from advisor.store._limit import Evicted, evict_results, limit_bytes


@dataclass(frozen=True)
class CacheShare:
    """The entries of one kind, or those that one run used."""

    name: str
    entries: tuple[CacheEntry, ...]
    state: str = ""  # of a run: running, kept or gone
    alone: tuple[CacheEntry, ...] = ()  # entries that no other run used

    @property
    def size_bytes(self) -> int:
        """Size of the entries."""
        return sum_bytes(self.entries)

    @property
    def alone_bytes(self) -> int:
        """Size of the entries that no other run used."""
        return sum_bytes(self.alone)

    @property
    def last_used(self) -> str:
        """When one of the entries was last used, in local time; empty without entries."""
        if not self.entries:
            return ""
        last = max(entry.used_s for entry in self.entries)
        return datetime.fromtimestamp(last, UTC).astimezone().isoformat(" ", "minutes")[:16]

    def to_json(self) -> dict[str, object]:
        """Return the number of entries, their size, and when they were last used."""
        return {
            "entries": len(self.entries),
            "size_bytes": self.size_bytes,
            "last_used": self.last_used,
        }


@dataclass(frozen=True)
class CacheContents:
    """The contents of the cache."""

    root: Path
    limit_bytes: int
    entries: tuple[CacheEntry, ...]
    uses: tuple[CacheUse, ...]

    @classmethod
    def read(cls, root: Path, size: int | None = None) -> Self:
        """Read what is in the cache; ``size`` is its limit, None :func:`limit_bytes`'s default."""
        return cls(root, limit_bytes(root, size), list_entries(root), list_uses(root))

    def evict(self, kinds: Iterable[str] = ()) -> Evicted:
        """Remove results until the cache is within its limit, or all of some kinds.

        See :func:`evict_results`.
        """
        return evict_results(self.root, self.limit_bytes, kinds)

    @property
    def size_bytes(self) -> int:
        """Size of all entries."""
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def by_kind(self) -> Mapping[str, tuple[CacheEntry, ...]]:
        """The entries of each kind, the largest kind first; of equal size, by name."""
        kinds: dict[str, list[CacheEntry]] = defaultdict(list)
        for entry in self.entries:
            kinds[entry.kind].append(entry)
        largest_first = sorted(kinds, key=lambda kind: (-sum_bytes(kinds[kind]), kind))
        return {kind: tuple(kinds[kind]) for kind in largest_first}

    def used_by(self, use: CacheUse) -> tuple[CacheEntry, ...]:
        """Return the entries that a run used and that are still there."""
        return tuple(entry for entry in self.entries if entry.key in use.keys)

    def used_only_by(self, use: CacheUse) -> tuple[CacheEntry, ...]:
        """Return those that no other run used."""
        others = frozenset[str]().union(*(other.keys for other in self.uses if other is not use))
        return tuple(entry for entry in self.used_by(use) if entry.key not in others)

    @property
    def kinds(self) -> tuple[CacheShare, ...]:
        """The entries by kind, the largest kind first."""
        return tuple(CacheShare(kind, entries) for kind, entries in self.by_kind.items())

    @property
    def runs(self) -> tuple[CacheShare, ...]:
        """The entries that each run used, by its folder."""
        shares = []
        for use in sorted(self.uses, key=lambda use: use.run):
            # Uses without a folder are those of other processes.
            if use.run:
                shares.append(
                    CacheShare(use.run, self.used_by(use), use.state, self.used_only_by(use))
                )
        return tuple(shares)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; sizes are bytes."""
        runs = []
        for run in self.runs:
            runs.append(
                {
                    "run": run.name,
                    "state": run.state,
                    **run.to_json(),
                    "alone_bytes": run.alone_bytes,
                }
            )
        return {
            "root": str(self.root),
            "size_bytes": self.size_bytes,
            "limit_bytes": self.limit_bytes,
            "kinds": [{"kind": kind.name, **kind.to_json()} for kind in self.kinds],
            "runs": runs,
        }
