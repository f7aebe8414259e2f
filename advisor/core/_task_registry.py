"""Look up the tasks of this and of other packages by their names.

``tasks`` is the highest room, so this module imports it by its name when it is first asked.
``_tasks.py`` offers the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from types import MappingProxyType

from advisor.core._integrations import load_entry_point
from advisor.core._task_facts import TaskFacts

ROOM = "advisor.tasks"

GROUP = "advisor.tasks"
"""Entry points of other packages, each of which names a task's object."""

OWN: Mapping[str, TaskFacts] = MappingProxyType(
    {task.name: task for task in import_module(ROOM).TASKS}
)
"""The tasks of this package."""


class TaskRegistry(Mapping[str, TaskFacts]):
    """Every task by its name. Those of other packages are looked up when they are asked for,
    which takes 30 ms.
    """

    @cached_property
    def _all(self) -> Mapping[str, TaskFacts]:
        from importlib.metadata import entry_points

        points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
        others = map(load_entry_point, points)
        return {**OWN, **{task.name: task for task in others}}

    def __getitem__(self, name: str) -> TaskFacts:
        return OWN[name] if name in OWN else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
