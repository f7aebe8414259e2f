"""Find the shipped profiles: next to the package in a checkout, inside it in the wheel."""

from __future__ import annotations

from pathlib import Path

from advisor.core.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[2]


def shipped_profiles() -> Path:
    """Return the folder of the shipped profiles.

    Raises:
        UsageError: the installation is not complete.
    """
    for folder in (_PACKAGE / "_data" / "device_profiles", _PACKAGE.parent / "device_profiles"):
        if folder.is_dir():
            return folder
    raise UsageError("the shipped device profiles are missing", "install the package again")
