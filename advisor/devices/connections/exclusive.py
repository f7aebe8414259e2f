"""Measure on a device in one process and thread at a time."""

from __future__ import annotations

import hashlib

from filelock import FileLock

from advisor.store.cache import cache_root


def exclusive(label: str) -> FileLock:
    """Return the lock that everyone on this machine takes before measuring on the device with this label.

    Two models that run at once on one device spoil each other's latency. A lock file also covers a second search.
    """
    folder = cache_root() / "device-locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.lock")
