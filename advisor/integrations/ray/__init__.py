"""A Ray cluster that runs jobs and measurements; see :class:`advisor.engine.execution.Executor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.engine.execution import Executor
    from advisor.engine.question import Execution

VALUES = "ray (a cluster of this machine, started where none runs), ray://host:10001"


def executor(execution: Execution) -> Executor:
    """Return the connected executor; see :class:`advisor.engine.execution.ExecutorSource`."""
    from advisor.integrations.ray.cluster import RayExecutor

    return RayExecutor(execution.cluster, execution.workers, execution.shared_folder)
