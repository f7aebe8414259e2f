"""Parts of the JSON documents of a run folder, which a user or a full disk may have damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def section(document: Mapping[str, object], name: str) -> Mapping[str, Any]:
    """Return the object under ``name``; an empty one where the document has none."""
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
