"""Run the work of a search on the cores of this machine or on a Ray cluster.

To add an executor, write one class with the members of :class:`Executor`, one name in
:mod:`advisor.engine.question.names`, and one line in :data:`_EXECUTORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.engine.execution.protocol import Executor, call_locally
from advisor.engine.question.names import LOCAL, RAY

if TYPE_CHECKING:
    from advisor.engine.question import Execution

__all__ = ["Executor", "call_locally", "executor_for"]


def _local(execution: Execution, log: Callable[[], Path | None]) -> Executor:
    from advisor.engine.execution.local import LocalExecutor

    return LocalExecutor(execution.cores, log)


def _ray(execution: Execution, _log: Callable[[], Path | None]) -> Executor:
    from advisor.engine.execution.ray_cluster import RayExecutor

    return RayExecutor(execution.cluster, execution.workers, execution.shared_folder)


_EXECUTORS: Mapping[str, Callable[[Execution, Callable[[], Path | None]], Executor]] = {LOCAL: _local, RAY: _ray}
"""For each name, the function that makes it. The second argument returns the file for the children's output."""


def executor_for(execution: Execution, log: Callable[[], Path | None]) -> Executor:
    """Return the connected executor.

    Raises:
        UsageError: the executor cannot be reached, or a package that it needs is not installed.
    """
    return _EXECUTORS[execution.executor](execution, log)
