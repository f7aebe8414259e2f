"""Measure on a device in one process and thread at a time."""

from __future__ import annotations

import hashlib

from filelock import FileLock

from advisor.store.cache import cache_root


def exclusive(label: str) -> FileLock:
    """Return the lock to hold during a measurement on the device with this label.

    Two models that run at once on one device disturb each other's latency. A lock file also holds between processes.
    """
    folder = cache_root() / "device-locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.lock")
