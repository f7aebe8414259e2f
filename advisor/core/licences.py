"""Licences that a team accepts."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.errors import UsageError

PERMISSIVE_WORD = "permissive"

PERMISSIVE = frozenset(
    {"apache-2.0", "mit", "mit-0", "bsd-2-clause", "bsd-3-clause", "isc", "zlib", "unlicense", "cc0-1.0", "0bsd"}
)
"""SPDX identifiers, in lower case, of licences that allow closed products and require at most a notice."""


def parse_licences(text: str) -> tuple[str, ...]:
    """Parse ``permissive``, SPDX identifiers, or both, joined by commas; an empty text accepts any licence.

    Raises:
        UsageError: a name that is not an identifier.
    """
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if not name.replace("-", "").replace(".", "").replace("+", "").isalnum() or not name.isascii():
            raise UsageError(
                f"--licence: '{name}' is not a licence identifier",
                "write permissive, or SPDX identifiers: --licence permissive,CC-BY-4.0",
            )
    return names


def allows(wanted: Sequence[str], licence: str | None) -> bool:
    """Return whether ``licence`` is accepted; an unstated one is accepted only where any licence is."""
    if not wanted:
        return True
    own = (licence or "").strip().lower()
    names = {name.lower() for name in wanted}
    return bool(own) and (own in names or (PERMISSIVE_WORD in names and own in PERMISSIVE))
