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
    """Return the names that are registered in a group such as ``advisor.commands``, in their order in the metadata.

    Raises:
        UsageError: the installed metadata of advisor are missing, or older than the group.
    """
    return tuple(_entry_points(group))


@cache
def integration(group: str, name: str) -> Any:
    """Return what is registered by a name; its module is imported.

    Raises:
        KeyError: nothing has this name.
        UsageError: see :func:`registered`.
    """
    return _entry_points(group)[name].load()


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points  # takes 30 ms, which a help text does not need

    found = {each.name: each for each in reversed(entry_points(group=group))}
    if not found:
        raise UsageError(
            f"advisor is not installed, or was installed before it had its integrations: none is in '{group}'",
            "install it again: pip install ondevice-advisor, or in its source folder: pip install -e . --no-deps",
        )
    return dict(reversed(found.items()))
