"""The tasks that a search can have, by name: those of ``advisor/tasks/`` and of other packages.

A task is one object, see :class:`advisor.tasks.Task`. It is above every other room, so it is
looked up, never imported, and the rooms below ask the object.
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.core._task_facts import TaskFacts
from advisor.core._task_registry import OWN, TaskRegistry

DEFAULT_TASK: str = next(iter(OWN))
"""The name of the task of a user who names none: the first one."""

TASKS: Mapping[str, TaskFacts] = TaskRegistry()
"""Every task by its name."""


def images_needed() -> str:
    """Return the images that tasks of this package need,
    such as ``object-detection needs images with boxes``.
    """
    by_images: dict[str, list[str]] = {}
    for task in OWN.values():
        by_images.setdefault(task.needs, []).append(task.name)
    needs = []
    for images, names in by_images.items():
        if images:
            verb = "needs" if len(names) == 1 else "need"
            needs.append(f"{' and '.join(names)} {verb} {images}")
    return ", ".join(needs)
