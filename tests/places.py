"""Where the checkout is, and the files that all checkouts share."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]

SHARED = PROJECT.parent / "shared"
