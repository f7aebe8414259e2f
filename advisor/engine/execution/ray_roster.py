"""List the nodes of a Ray cluster: their resources, their package versions, and calls to each of them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, TypeVar

from advisor.core.errors import UsageError, last_line
from advisor.core.figures import HOST
from advisor.engine.execution import ray_node
from advisor.engine.execution.ray_connection import ANSWER_S

Result = TypeVar("Result")


class Roster:
    """The nodes of a cluster that are alive at the time of each call.

    Args:
        ray: the module ``ray``, connected.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote: dict[Callable[..., object], Any] = {}

    def remote(self, task: Callable[..., object]) -> Any:
        """Return the Ray task of a function. It is made once, because Ray sends each new one to every node."""
        if task not in self._remote:
            self._remote[task] = self._ray.remote(task)
        return self._remote[task]

    def measure_where_jobs_run(self) -> bool:
        """Return True if the machine that measures ``host`` also runs jobs; jobs and measurements then take turns."""
        offering = [node["NodeManagerHostname"] for node in self._alive() if resource_of(HOST) in node["Resources"]]
        measuring = offering or [socket.gethostname()]
        return any(node["NodeManagerHostname"] in measuring and node["Resources"].get("CPU") for node in self._alive())

    def total(self, resource: str) -> float:
        """Return how much of a resource all nodes offer together."""
        return float(sum(node["Resources"].get(resource, 0.0) for node in self._alive()))

    def most(self, resource: str) -> float:
        """Return the most that a single node offers of a resource."""
        return float(max((node["Resources"].get(resource, 0.0) for node in self._alive()), default=0.0))

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def on_every_node(self, task: Callable[[], Result], timeout_s: float = ANSWER_S) -> dict[str, Result]:
        """Run a task on each node and return the results by the node's name."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        references = {}
        for node in self._alive():
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = self.remote(_called).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:8]})"
            references[name] = remote.remote(task)
        return {name: self._answer(name, reference, timeout_s) for name, reference in references.items()}

    def _answer(self, name: str, reference: object, timeout_s: float) -> Any:
        try:
            return self._ray.get(reference, timeout=timeout_s)
        except Exception as error:  # most likely advisor is not installed on the node, which cannot import the task
            raise UsageError(
                f"--executor: the node {name} cannot work: {last_line(str(error)) or type(error).__name__}",
                "every node needs the same version of advisor as this machine: pip install 'advisor[ray]'",
            ) from None

    def require_same(self) -> None:
        """Refuse nodes with other package versions, because they would make other files than this machine.

        Raises:
            UsageError: the first such node, with its versions and this machine's.
        """
        here = ray_node.versions()
        for name, there in self.on_every_node(ray_node.versions).items():
            other = [
                f"{package} {there[package]}, not {here[package]}"
                for package in here
                if there[package] != here[package]
            ]
            if other:
                raise UsageError(
                    f"--executor: the node {name} has {'; '.join(other)}", "install the same versions on every node"
                )


def resource_of(device: str) -> str:
    """Return the name of the resource that a node with this device offers."""
    return f"device:{device}"


def _called(task: Callable[[], Result]) -> Result:
    return task()
