"""Find what is registered by entry points: the folders of ``advisor.integrations``, and packages of others.

A room that asks for integrations names their group, and declares what each of them offers. It imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from advisor.core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def registered(group: str) -> tuple[str, ...]:
    """Return the names that are registered in a group such as ``advisor.commands``, in alphabetical order.

    Raises:
        UsageError: the installed metadata of advisor are missing, or older than the group.
    """
    return tuple(_entry_points(group))


@cache
def integration(group: str, name: str) -> Any:
    """Return what is registered by a name; its module is imported.

    Raises:
        UsageError: nothing has this name, or its module is gone: the installed metadata are of another version.
    """
    found = _entry_points(group).get(name)
    if found is None:
        raise _other_version(f"'{group}' has no '{name}'")
    try:
        return found.load()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("advisor."):
            raise
        raise _other_version(f"'{group}' names '{found.value}', which is gone") from None


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points  # takes 30 ms, which a help text does not need

    found: dict[str, EntryPoint] = {}
    for each in sorted(entry_points(group=group), key=lambda found: found.name):
        found.setdefault(each.name, each)
    if not found:
        raise _other_version(f"'{group}' is empty")
    return found


def _other_version(problem: str) -> UsageError:
    return UsageError(
        f"advisor is not installed, or another version of it is: of its entry points, {problem}",
        "install it again: pip install ondevice-advisor, or in its source folder: pip install -e . --no-deps",
    )
