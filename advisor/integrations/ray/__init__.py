"""A Ray cluster that runs jobs and measurements: connect to it, or start one on this machine, and list its nodes."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from advisor.core.errors import UsageError, install_extra, last_line, message_of
from advisor.core.evaluation import HOST
from advisor.integrations.ray import node as ray_node

if TYPE_CHECKING:
    from advisor.engine.execution import Executor
    from advisor.engine.question import Execution

Result = TypeVar("Result")

VALUES = "ray (a cluster of this machine, started where none runs), ray://host:10001"

CONNECT_S = 5.0
ANSWER_S = 60.0
CLIENT_PORT = 10001

OWN = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # despite its name, it makes nodes bind to 127.0.0.1 on every system
    "RAY_agent_register_timeout_ms": "200000",  # importing Ray's agents is slow on a busy machine
    "RAY_raylet_start_wait_time_s": "200",
}
"""Environment of a cluster that is started here: only this machine can reach it, and it may start slowly."""


def executor(execution: Execution) -> Executor:
    """Return the connected executor; see :class:`advisor.engine.execution.ExecutorSource`."""
    from advisor.integrations.ray.cluster import RayExecutor

    return RayExecutor(execution.cluster, execution.workers, execution.shared_folder)


def connect(address: str, cores: int) -> Any:
    """Connect to a cluster and return the module ``ray``. A cluster that is started here measures ``host``.

    Raises UsageError: Ray is not installed, or no cluster answers at the address.

    Args:
        address: ``host:port`` of the cluster's client server. If it is empty, ``$RAY_ADDRESS`` is used; if that is not
            set either, a cluster is started on this machine, which ends with this process.
        cores: CPUs of a cluster that is started here.
    """
    if find_spec("ray") is None:
        raise UsageError("--executor: Ray is not installed", install_extra("ray"))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    given = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS", "")
    if given:
        _knock(given)
        options: dict[str, Any] = {"address": given}
    else:
        for name, value in OWN.items():
            os.environ.setdefault(name, value)
        options = {"address": "local", "num_cpus": cores, "resources": {resource_of(HOST): 1}}
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    import ray

    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:  # from Ray, gRPC or a socket: Ray defines no error class for it
        if given:
            raise _unreachable(given, message_of(error)) from None
        raise UsageError(
            f"--executor: Ray cannot be started here: {message_of(error)}", "use --executor local"
        ) from None
    return ray


class Roster:
    """The nodes of a cluster that are alive at the time of each call; ``ray`` is the connected module."""

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

    def on_every_node(
        self, task: Callable[..., Result], *arguments: object, timeout_s: float = ANSWER_S
    ) -> dict[str, Result]:
        """Run a task on each node and return the results by the node's name."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        references = {}
        for node in self._alive():
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = self.remote(task).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:8]})"
            references[name] = remote.remote(*arguments)
        return {name: self._answer(name, reference, timeout_s) for name, reference in references.items()}

    def _answer(self, name: str, reference: object, timeout_s: float) -> Any:
        try:
            return self._ray.get(reference, timeout=timeout_s)
        except Exception as error:  # most likely advisor is not installed on the node, which cannot import the task
            raise UsageError(
                f"--executor: the node {name} cannot work: {last_line(str(error)) or type(error).__name__}",
                f"every node needs the same version of advisor as this machine: {install_extra('ray')}",
            ) from None

    def require_same(self) -> None:
        """Refuse nodes with other package versions, because they would make other files than this machine.

        Raises UsageError: the first such node, with its versions and this machine's.
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


def _knock(address: str) -> None:
    """Open and close a connection first, because Ray itself tries for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if address in ("auto", "local"):
        return
    if not colon or not port.isdigit():
        raise UsageError(
            f"--executor: '{address}' names no port", f"write for example --executor ray://{host or port}:{CLIENT_PORT}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(getattr(error, "strerror", None) or error)) from None


def _unreachable(address: str, why: str) -> UsageError:
    return UsageError(
        f"--executor: no Ray cluster answers at {address}: {why}",
        f"start one with: ray start --head (its client server listens on port {CLIENT_PORT}), "
        "or use --executor ray to start one on this machine",
    )
