"""What an artefact costs to download."""

from __future__ import annotations

import zlib


def deflated_bytes(data: bytes) -> int:
    """Return the size of ``data`` deflated at level 9, as a zip archive or an app bundle stores it."""
    return len(zlib.compress(data, 9))
