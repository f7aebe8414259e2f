"""Find the tasks of a search by their names: those of ``advisor/tasks/``, and those of other installed packages.

A task is one object, see :class:`advisor.tasks.Task`. It is above every other room, so it is looked up, never
imported, and the rooms below ask the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from advisor.core._names import load_entry_point

if TYPE_CHECKING:
    from advisor.tasks import Task

ROOM = "advisor.tasks"
GROUP = "advisor.tasks"
"""Entry points of other packages, each of which names a task's object."""


OWN: Mapping[str, Task] = MappingProxyType({task.name: task for task in import_module(ROOM).TASKS})
"""The tasks of this package."""

DEFAULT_TASK = next(iter(OWN))
"""The name of the task of a user who names none: the first one."""


class _Tasks(Mapping[str, "Task"]):
    """Every task by its name. Those of other packages are looked up when they are asked for, which takes 30 ms."""

    @cached_property
    def _all(self) -> Mapping[str, Task]:
        from importlib.metadata import entry_points

        points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
        others = (load_entry_point(point) for point in points)
        return {**OWN, **{task.name: task for task in others}}

    def __getitem__(self, name: str) -> Task:
        return OWN[name] if name in OWN else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


TASKS: Mapping[str, Task] = _Tasks()
"""Every task by its name."""


def needs() -> str:
    """Return the images that tasks of this package need, such as ``object-detection needs images with boxes``."""
    by_images: dict[str, list[str]] = {}
    for task in OWN.values():
        by_images.setdefault(task.needs, []).append(task.name)
    return ", ".join(
        f"{' and '.join(names)} need{'' if names[1:] else 's'} {images}"
        for images, names in by_images.items()
        if images
    )
