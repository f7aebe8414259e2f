"""A kind of store for objects, and what speaks to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreKind:
    """A kind of store: the module and class of fsspec that speak to it,
    and where it takes its credentials.
    """

    module: str
    name: str
    credentials: str
