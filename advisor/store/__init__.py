"""Store runs, and cache the results of their stages."""

from advisor.store.cache import ArtifactCache, cache_root, require_cache
from advisor.store.run_folder import RunFolder

__all__ = ["ArtifactCache", "RunFolder", "cache_root", "require_cache"]
