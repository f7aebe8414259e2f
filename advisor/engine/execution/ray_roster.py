"""The nodes of a Ray cluster: what they offer together, whether they fit each other, and calls to each of them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from advisor.core.errors import UsageError, last_line
from advisor.core.figures import HOST
from advisor.engine.execution import ray_node
from advisor.engine.execution.ray_connection import ANSWER_S


class Roster:
    """The nodes of a cluster, those alive at each call.

    Args:
        ray: the module, connected.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote: dict[Callable[..., Any], Any] = {}

    def remote(self, task: Callable[..., Any]) -> Any:
        """Return the task as Ray knows it; made once, as each one made is sent to every node."""
        if task not in self._remote:
            self._remote[task] = self._ray.remote(task)
        return self._remote[task]

    def measure_where_jobs_run(self) -> bool:
        """True where the machine that measures ``host`` also takes jobs: neither may run beside the other then."""
        offering = [node["NodeManagerHostname"] for node in self._alive() if resource_of(HOST) in node["Resources"]]
        measuring = offering or [socket.gethostname()]
        return any(node["NodeManagerHostname"] in measuring and node["Resources"].get("CPU") for node in self._alive())

    def total(self, resource: str) -> float:
        """Return how much of a resource they offer together."""
        return float(sum(node["Resources"].get(resource, 0.0) for node in self._alive()))

    def most(self, resource: str) -> float:
        """Return how much of a resource one of them offers at most."""
        return float(max((node["Resources"].get(resource, 0.0) for node in self._alive()), default=0.0))

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def everywhere(self, task: Callable[[], Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """Return what a task returns on each node, by the node's name."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        references = {}
        for node in self._alive():
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = self.remote(_called).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:8]})"
            references[name] = remote.remote(task)
        return {name: self._answer(name, reference, timeout_s) for name, reference in references.items()}

    def _answer(self, name: str, reference: Any, timeout_s: float) -> Any:
        try:
            return self._ray.get(reference, timeout=timeout_s)
        except Exception as error:  # most likely a node without advisor, which cannot import the task
            raise UsageError(
                f"--executor: the node {name} cannot work: {last_line(str(error)) or type(error).__name__}",
                "every node needs advisor in the version of this machine: pip install 'advisor[ray]'",
            ) from None

    def require_same(self) -> None:
        """Refuse nodes that would make other files than this machine.

        Raises:
            UsageError: the first such node, with its versions and this machine's.
        """
        own = ray_node.versions()
        for name, theirs in self.everywhere(ray_node.versions).items():
            other = [
                f"{package} {theirs[package]}, not {own[package]}" for package in own if theirs[package] != own[package]
            ]
            if other:
                raise UsageError(
                    f"--executor: the node {name} has {'; '.join(other)}", "install the same versions on every node"
                )


def resource_of(device: str) -> str:
    """Return what a node offers that has a device."""
    return f"device:{device}"


def _called(task: Callable[[], Any]) -> Any:
    return task()
