"""The public functions for the cache: what is in it, what goes, and what stays.

``advisor cache`` and its commands call them. They only open the folder of the cache; ``store``
knows its layout and its limit.
"""

from __future__ import annotations

from pathlib import Path

from advisor.api._models import cache_bytes
from advisor.core import UsageError, nearest
from advisor.store import CacheContents, CacheUse, Evicted, cache_root


def cache() -> CacheContents:
    """Return what is in the cache, by kind and by run, and its limit.

    ::

        import advisor
        contents = advisor.cache()
        print(contents.size_bytes, contents.limit_bytes)

    Raises:
        UsageError: ``$ADVISOR_CACHE_SIZE`` is no size.
    """
    return CacheContents.read(_open_root())


def clean_cache(*kinds: str, size: str | None = None, everything: bool = False) -> Evicted:
    """Remove the least recently used results until the cache is within its limit,
    or all entries of some kinds.

    Results of running searches and of kept runs stay.
    Downloads go only if their kind is named and nothing runs.

    Args:
        kinds: kinds of entries, as :func:`advisor.cache` names them.
        size: the limit, such as ``5GB``. Default: the usual one.
        everything: remove all results that may go.

    Raises:
        UsageError: a kind is unknown, or the size is no size.
    """
    contents = CacheContents.read(_open_root(), 0 if everything else cache_bytes(size))
    known = contents.by_kind
    for kind in kinds:
        if kind not in known:
            kinds_there = ", ".join(sorted(known)) or "nothing"
            raise UsageError(
                f"the cache has nothing of the kind '{kind}'{nearest(kind, known)}",
                f"in the cache: {kinds_there}",
            )
    return contents.evict(kinds)


def keep_run(run: str | Path, *, keep: bool = True) -> CacheUse:
    """Keep the results that a run used until you say otherwise.

    Args:
        run: the run folder.
        keep: False if the results may go again.

    Raises:
        UsageError: the cache has no record of the run.
    """
    return CacheUse.keep_run(_open_root(), Path(run), keep)


def _open_root() -> Path:
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    return root
