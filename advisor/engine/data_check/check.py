"""Check the user's images for a task."""

from __future__ import annotations

from pathlib import Path

from advisor.core.names import require_known
from advisor.core.tasks import DEFAULT_TASK, TASKS
from advisor.engine.data_check.label_checker import LabelChecker
from advisor.engine.data_check.result import DataCheck, Say


def check_data(
    path: Path,
    checker: LabelChecker | None,
    say: Say = lambda _text: None,
    task: str = DEFAULT_TASK,
) -> DataCheck:
    """Check a data set in any layout of its task; it is not changed.

    Args:
        path: a folder or a file.
        checker: finds wrong labels and crops by a network's features; None to look for neither.
        say: called with a line about each step.
        task: a name in :data:`advisor.core.tasks.TASKS`.

    Raises:
        UsageError: an unknown task, the path does not exist or cannot be read, or the card is unknown.
    """
    return TASKS[require_known("--task", task, tuple(TASKS))].check(path, checker, say)
