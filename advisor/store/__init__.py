"""What a run leaves behind, and what the next one need not do again."""

from advisor.store.cache import ArtifactCache, cache_root
from advisor.store.run_folder import RunFolder

__all__ = ["ArtifactCache", "RunFolder", "cache_root"]
