"""Store runs, and cache the results of their stages."""

from advisor.store.cache import ArtifactCache, cache_root, require_cache
from advisor.store.run_folder import RunFolder, answers_file

__all__ = ["ArtifactCache", "RunFolder", "answers_file", "cache_root", "require_cache"]
