"""Store runs, and cache the results of their stages."""

from typing import TYPE_CHECKING, Any

from advisor.store.cache import ArtifactCache, cache_root, limited_cache, require_cache

if TYPE_CHECKING:
    from advisor.store.run_folder import RunFolder, answers_file

__all__ = ["ArtifactCache", "RunFolder", "answers_file", "cache_root", "limited_cache", "require_cache"]


def __getattr__(name: str) -> Any:
    """Import what belongs to runs when it is asked for: the processes of most stages need none of it."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from advisor.store import run_folder

    return getattr(run_folder, name)
