"""Load the shipped descriptions of accelerators, ``device_profiles/accelerators/*.yaml``, and find one by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from advisor.core.errors import UsageError, nearest
from advisor.measurement.accelerators.rules import Accelerator

FOLDER = "accelerators"


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Return the shipped accelerators by name.

    Raises:
        UsageError: a file is not valid; the error names file and line.
    """
    from advisor.devices.profiles.paths import shipped_profiles

    return MappingProxyType(read_folder(shipped_profiles() / FOLDER))


def accelerator(name: str) -> Accelerator:
    """Return one accelerator by name.

    Raises:
        UsageError: there is none of this name. The error names the nearest one.
    """
    known = accelerators()
    if name not in known:
        raise UsageError(
            f"unknown accelerator '{name}'{nearest(name, known)}", f"accelerators: {', '.join(sorted(known))}"
        )
    return known[name]


def serving(runtime: str, kind: str) -> tuple[Accelerator, ...]:
    """Return the accelerators that a device's target uses, given its runtime and kind (``cpu``, ``gpu``, ...)."""
    return tuple(each for each in accelerators().values() if (runtime, kind) in each.serves)


def read_folder(folder: Path) -> dict[str, Accelerator]:
    """Read every ``*.yaml`` file in a folder.

    Raises:
        UsageError: a file is not valid; the error names file and line.
    """
    from advisor.measurement.accelerators.schema import read_accelerator

    found = (read_accelerator(path) for path in sorted(folder.glob("*.yaml")))
    return {each.rules.name: each for each in found}
