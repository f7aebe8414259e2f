"""Define a kind of object store: the class of fsspec that reads it, and its credentials.

``object_store.py`` lists the kinds in ``STORES``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreKind:
    """A kind of store of objects."""

    module: str  # of the package that reads it, imported on first use
    name: str  # of the file system's class in this module
    credentials: str  # where the package takes credentials: the hint if the store refuses
