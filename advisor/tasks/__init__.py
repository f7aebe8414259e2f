"""The tasks of a search: one folder or module each, with one object.

Read ``_task.py`` first (what a task is), then ``classification/``. ``_judge.py`` and
``_on_maps.py`` have what tasks share whose figure is a mean over the images, and whose network
learns from the maps of a backbone.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.tasks._all import TASKS
    from advisor.tasks._task import Task
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "TASKS",
    "Task",
]
