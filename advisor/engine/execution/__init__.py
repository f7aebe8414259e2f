"""Where the work of a search runs: on the cores of this machine, or on those of a Ray cluster.

A further executor is one class with the members of :class:`Executor` and one line in :data:`EXECUTORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest
from advisor.engine.execution.protocol import Executor, here

if TYPE_CHECKING:
    from advisor.engine.question import Request

__all__ = ["EXECUTORS", "Executor", "executor_for", "here", "kind_of"]

LOCAL, RAY = "local", "ray"


def _local(request: Request, log: Callable[[], Path | None]) -> Executor:
    from advisor.engine.execution.local import LocalExecutor

    return LocalExecutor(request.cores, log)


def _ray(request: Request, _log: Callable[[], Path | None]) -> Executor:
    from advisor.engine.execution.ray_cluster import RayExecutor

    return RayExecutor(request.executor.partition("://")[2], request.workers, request.shared_folder)


EXECUTORS: Mapping[str, Callable[[Request, Callable[[], Path | None]], Executor]] = {LOCAL: _local, RAY: _ray}
"""Name to how it is made of a question, and of what gives the file that takes the children's output."""


def executor_for(request: Request, log: Callable[[], Path | None]) -> Executor:
    """Return the executor of a question, connected.

    Raises:
        UsageError: it cannot be reached, or what it needs is not installed.
    """
    return EXECUTORS[kind_of(request.executor)](request, log)


def kind_of(executor: str) -> str:
    """Return the name of the executor, without its address.

    Raises:
        UsageError: there is none of that name, or an address where there is none to be had.
    """
    name, scheme, address = executor.partition("://")
    if name not in EXECUTORS or (scheme and (name != RAY or not address)):
        raise UsageError(
            f"--executor: unknown '{executor}'{nearest(name, EXECUTORS)}",
            "one of: local, ray (a cluster of this machine, started where none runs), ray://host:10001",
        )
    return name
