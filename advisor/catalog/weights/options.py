"""Define how weights may be fetched: the mirror, whether the network is allowed, and the cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from advisor.core.errors import UsageError
from advisor.store.cache import cache_root

#: Called as ``progress(file name, bytes so far, bytes in all or None)``.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """``mirror``: a folder, a file or an http(s) URL of the user's; ``cache``: the cache's root; both have defaults.

    ``offline`` opens no socket. The environment's ADVISOR_MIRROR and ADVISOR_CACHE_DIR stand in where a field is None.
    """

    offline: bool = False
    mirror: Path | str | None = None
    cache: Path | None = None
    progress: Progress | None = None

    @property
    def cache_root(self) -> Path:
        """The folder that holds every cached file."""
        return cache_root() if self.cache is None else Path(self.cache)

    @property
    def mirror_url(self) -> str | None:
        """The mirror, where it is an http(s) URL."""
        text = self._mirror_text()
        return text.rstrip("/") if text and urlsplit(text).scheme in ("http", "https") else None

    @property
    def mirror_path(self) -> Path | None:
        """The mirror, where it is a folder or a file.

        Raises:
            UsageError: it does not exist.
        """
        text = self._mirror_text()
        if not text or self.mirror_url is not None:
            return None
        path = Path(text.removeprefix("file://")).expanduser()
        if not path.exists():
            raise UsageError(f"the mirror '{text}' does not exist", "a mirror is a folder, a file or an http(s) URL")
        return path

    def report(self, name: str, done: int, total: int | None) -> None:
        """Tell the listener, if there is one, how far a file is."""
        if self.progress is not None:
            self.progress(name, done, total)

    def _mirror_text(self) -> str | None:
        return str(self.mirror) if self.mirror else os.environ.get("ADVISOR_MIRROR")
