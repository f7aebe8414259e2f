"""Find the tasks of a search by their names: those of ``advisor/tasks/``, and those of other installed packages.

A task is one object, see :class:`advisor.tasks.task.Task`. It is above every other room, so it is looked up, never
imported, and the rooms below ask the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.tasks.task import Task

ROOM = "advisor.tasks"
GROUP = "advisor.tasks"
"""Entry points of other packages, each of which names a task's object."""


def _tasks() -> Mapping[str, Task]:
    others = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    every: tuple[Task, ...] = (*import_module(ROOM).TASKS, *(point.load() for point in others))
    return MappingProxyType({task.name: task for task in every})


TASKS = _tasks()
"""Every task by its name."""

DEFAULT_TASK = next(iter(TASKS))
"""The name of the task of a user who names none: the first one."""


def needs() -> str:
    """Return the images that tasks need, such as ``object-detection needs images with boxes``."""
    by_images: dict[str, list[str]] = {}
    for task in TASKS.values():
        by_images.setdefault(task.needs, []).append(task.name)
    return ", ".join(
        f"{' and '.join(names)} need{'' if names[1:] else 's'} {images}"
        for images, names in by_images.items()
        if images
    )
