"""The tasks of a search: one folder or module each, with one object.

Read ``_task.py`` first (what a task is), then ``classification/``. The README of this folder says
what the modules of a task are called, and what tasks share.
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
