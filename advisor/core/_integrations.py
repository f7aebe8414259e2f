"""Find integrations by the entry points of installed packages.

A room that asks for integrations names the group of their entry points, such as
``advisor.commands``, and declares what each of them offers. It imports none of them: neither the
folders of ``advisor.integrations`` nor packages of others. The names of groups are a contract with
other packages (``docs/extend-runtimes.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from advisor.core._errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_MERGED_ROOMS = {
    "advisor.downloads": "advisor.store",
    "advisor.exporting": "advisor.reporting",
}
"""Rooms that other packages may still import, and the rooms that have their names now."""


def list_registered(group: str) -> tuple[str, ...]:
    """Return the names in a group such as ``advisor.commands``, sorted;
    UsageError if the metadata lack it.
    """
    return tuple(_entry_points(group))


@cache
def load_integration(group: str, name: str) -> Any:
    """Return what has a name, and import its module; UsageError if it is gone:
    the metadata are of another version.
    """
    point = _entry_points(group).get(name)
    if point is None:
        raise _other_version(f"'{group}' has no '{name}'")
    return load_entry_point(point)


def load_entry_point(point: EntryPoint) -> Any:
    """Import what an entry point names;
    UsageError if its package was written for another version of this one.
    """
    try:
        return point.load()
    except ImportError as error:
        missing = error.name or ""
        if missing == point.module:
            raise _other_version(f"'{point.group}' names '{point.value}', which is gone") from None
        if not missing.startswith("advisor."):
            raise
        named_room = ".".join(missing.split(".")[:2])
        room = _MERGED_ROOMS.get(named_room, named_room)
        raise UsageError(
            f"the package of '{point.value}' imports from {missing} what this version of advisor"
            " does not have",
            f"since 0.2.0 another package imports the rooms alone: from {room} import NAME",
        ) from None


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    # Takes 30 ms, which a help text does not need.
    from importlib.metadata import entry_points

    points: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda entry_point: entry_point.name):
        points.setdefault(point.name, point)
    if not points:
        raise _other_version(f"'{group}' is empty")
    return points


def _other_version(problem: str) -> UsageError:
    return UsageError(
        f"advisor is not installed, or another version of it is: of its entry points, {problem}",
        "install it again: pip install ondevice-advisor, or in its source folder: pip install -e ."
        " --no-deps",
    )
