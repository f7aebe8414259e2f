"""The names that options take, for the completion of a shell."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

LISTED: Mapping[str, tuple[str, str]] = {
    "compressions": ("advisor.compression.recipes.listed", "RECIPES"),
    "metric": ("advisor.core.metrics", "METRICS"),
    "objective": ("advisor.engine.question.names", "OBJECTIVES"),
    "prefer": ("advisor.core.preference", "PREFERENCES"),
    "sampler": ("advisor.engine.question.names", "SAMPLERS"),
    "task": ("advisor.core.tasks", "TASKS"),
    "training": ("advisor.core.training", "CHOOSABLE"),
}
"""Module and value that list the names of an option; the module is imported when it is needed."""


def choices(option: str) -> tuple[str, ...]:
    """Return the names that an option takes; none for an option that takes something else."""
    if option in ("candidates", "card"):
        from advisor.catalog.catalogue import load_catalogue

        catalogue = load_catalogue([])
        return (*(catalogue.families if option == "candidates" else ()), *catalogue)
    if option in ("device", "must_run_on"):
        from advisor.devices.profiles.team import known_devices

        return tuple(known_devices(()))
    if option not in LISTED:
        return ()
    module, value = LISTED[option]
    return tuple(each if isinstance(each, str) else each.name for each in getattr(import_module(module), value))
