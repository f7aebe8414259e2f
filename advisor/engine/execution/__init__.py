"""Run the work of a search on the cores of this machine or on a Ray cluster.

To add an executor, write one class with the members of :class:`Executor`, one name in
:mod:`advisor.engine.question.names`, and one branch in :func:`executor_for`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.engine.execution.protocol import Executor
from advisor.engine.question.names import RAY

if TYPE_CHECKING:
    from advisor.engine.question import Execution

__all__ = ["Executor", "executor_for"]


def executor_for(execution: Execution, log: Callable[[], Path | None]) -> Executor:
    """Return the connected executor.

    Args:
        execution: names the executor, with its settings.
        log: returns the file for the output of local child processes, None to show it.

    Raises:
        UsageError: the executor cannot be reached, or a package that it needs is not installed.
    """
    if execution.executor == RAY:
        from advisor.engine.execution.ray_cluster import RayExecutor

        return RayExecutor(execution.cluster, execution.workers, execution.shared_folder)
    from advisor.engine.execution.local import LocalExecutor

    return LocalExecutor(execution.cores, log)
