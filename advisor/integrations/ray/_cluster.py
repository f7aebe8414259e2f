"""Connect to a Ray cluster, or start one here, and ask which nodes it has.

``ray/__init__.py`` calls :func:`connect` at the begin of a search; :class:`Roster` answers by what
is alive at the time of each call. Users name the resources of nodes (``device:NAME``) when they
start them: :func:`resource_of` stays.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from advisor.core import (
    HOST,
    UsageError,
    install_extra,
    last_line,
    message_of,
    require_extra,
    units,
)
from advisor.integrations.ray import _node as ray_node

Result = TypeVar("Result")

CONNECT_S = 5.0
ANSWER_S = 60.0
CLIENT_PORT = 10001

LOCAL_ENVIRONMENT = {
    # With this variable nodes bind to 127.0.0.1 on every system, not only on those of its name.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Importing Ray's agents is slow on a busy machine.
    "RAY_agent_register_timeout_ms": "200000",
    "RAY_raylet_start_wait_time_s": "200",
}
"""Environment of a cluster that is started here: only this machine can reach it, and it may start
slowly.
"""


def require_installed() -> None:
    """Refuse to go on without Ray: UsageError."""
    require_extra("ray", "ray", "--executor: Ray is not installed")


def connect(address: str, cores: int) -> Any:
    """Connect to a cluster and return the module ``ray``.

    The address is ``host:port`` of the cluster's client server. If it is empty, ``$RAY_ADDRESS``
    is used; if that is not set either, a cluster with ``cores`` CPUs is started here. It measures
    ``host``, and ends with this process.

    Raises:
        UsageError: Ray is not installed, or no cluster answers at the address.
    """
    require_installed()
    # Ray otherwise reports the use of the cluster to its makers.
    # A user who wants that sets the variable.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    cluster = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS", "")
    if cluster:
        _knock(cluster)
        options: dict[str, Any] = {"address": cluster}
    else:
        for name, value in LOCAL_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        options = {"address": "local", "num_cpus": cores, "resources": {resource_of(HOST): 1}}
        # A cluster runs any code that it is sent, so no other machine may reach it,
        # nor its dashboard.
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    import ray

    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    # Ray, gRPC or a socket raises it, and Ray defines no class for it.
    except Exception as error:
        if cluster:
            raise _unreachable(cluster, message_of(error)) from None
        raise UsageError(
            f"--executor: Ray cannot be started here: {message_of(error)}", "use --executor local"
        ) from None
    return ray


class Roster:
    """The nodes of a cluster that are alive at the time of each call.

    ``ray`` is the connected module.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        # Of each function once, because Ray sends each task to every node.
        self.remote = functools.cache(ray.remote)

    def measure_where_jobs_run(self) -> bool:
        """Return True if the machine that measures ``host`` also runs jobs;
        jobs and measurements then take turns.
        """
        offering = []
        for node in self._alive():
            if resource_of(HOST) in node["Resources"]:
                offering.append(node["NodeManagerHostname"])
        measuring = offering or [socket.gethostname()]
        for node in self._alive():
            if node["NodeManagerHostname"] in measuring and node["Resources"].get("CPU"):
                return True
        return False

    def list_offered(self, resource: str) -> list[float]:
        """Return how much of a resource each node offers."""
        return [float(node["Resources"].get(resource, 0.0)) for node in self._alive()]

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def run_on_every_node(
        self, task: Callable[..., Result], *arguments: object, timeout_s: float = ANSWER_S
    ) -> dict[str, Result]:
        """Run a task on each node and return the results by the node's name."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        references = {}
        for node in self._alive():
            on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            # Without a CPU, so that also a node answers whose CPUs are all taken by jobs.
            remote = self.remote(task).options(
                num_cpus=0, max_retries=0, scheduling_strategy=on_node
            )
            address = f"{node['NodeManagerAddress']}, {node['NodeID'][:8]}"
            name = f"{node['NodeManagerHostname']} ({address})"
            references[name] = remote.remote(*arguments)
        answers = {}
        for name, reference in references.items():
            answers[name] = self._answer(name, reference, timeout_s)
        return answers

    def _answer(self, name: str, reference: object, timeout_s: float) -> Any:
        try:
            return self._ray.get(reference, timeout=timeout_s)
        # Most likely advisor is not installed on the node, which cannot import the task.
        except Exception as error:
            reason = last_line(str(error)) or type(error).__name__
            raise UsageError(
                f"--executor: the node {name} cannot work: {reason}",
                "every node needs the same version of advisor as this machine:"
                f" {install_extra('ray')}",
            ) from None

    def require_same(self) -> None:
        """Refuse nodes with other package versions, which would make other files.

        Raises:
            UsageError: a node has them.
        """
        versions_here = ray_node.find_versions()
        for node, versions in self.run_on_every_node(ray_node.find_versions).items():
            differing = []
            for package, version in versions_here.items():
                if versions[package] != version:
                    differing.append(f"{package} {versions[package]}, not {version}")
            if differing:
                raise UsageError(
                    f"--executor: the node {node} has {'; '.join(differing)}",
                    "install the same versions on every node",
                )


def resource_of(device: str) -> str:
    """Return the name of the resource that a node with this device offers."""
    return f"device:{device}"


def _knock(address: str) -> None:
    """Open and close a connection first, because Ray itself tries for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if address in ("auto", "local"):
        return
    number = units.whole_number(port) if colon else None
    if number is None:
        raise UsageError(
            f"--executor: '{address}' names no port",
            f"write for example --executor ray://{host or port}:{CLIENT_PORT}",
        )
    try:
        socket.create_connection((host.strip("[]"), number), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(getattr(error, "strerror", None) or error)) from None


def _unreachable(address: str, why: str) -> UsageError:
    return UsageError(
        f"--executor: no Ray cluster answers at {address}: {why}",
        f"start one with: ray start --head (its client server listens on port {CLIENT_PORT}), "
        "or use --executor ray to start one on this machine",
    )
