"""Fetch and check weights (:func:`fetch`), read them (:mod:`readers`), map them to a graph (:mod:`mapping`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.catalog.weights.file import WeightsFile

if TYPE_CHECKING:
    from advisor.catalog.weights.fetching import fetch, locate
    from advisor.catalog.weights.options import FetchOptions

__all__ = ["FetchOptions", "WeightsFile", "fetch", "locate"]


def __getattr__(name: str) -> Any:
    # The HTTP client is slow to import, and reading a file that is here already does not need it.
    if name in ("fetch", "locate"):
        from advisor.catalog.weights import fetching as module

        return getattr(module, name)
    if name == "FetchOptions":
        from advisor.catalog.weights.options import FetchOptions

        return FetchOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
