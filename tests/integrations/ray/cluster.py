"""Starts two nodes, and kills the second when told so: ``start``, ``kill``, ``end``; a line answers each.

``start client`` starts a client server too; ``start measures`` lets the first node measure, and not the second.
"""

import sys
from typing import Any

from ray.cluster_utils import Cluster

from tests.processes import free_port, is_open, until

NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 150_000_000}
PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
"""Given to each node: one that is to find them waits fifteen seconds for its agents, too little on a busy machine."""

TRIES = 4
"""A node that starts beside much other work gives up too early at times."""


def main() -> None:
    nodes: list[Any] = []
    cluster = Cluster()
    for order in sys.stdin:
        words = order.split()
        if words[:1] == ["start"]:
            port = free_port()
            client = {"ray_client_server_port": port} if "client" in words else {}
            host: dict[str, Any] = {"resources": {"device:host": 1}}
            first, second = (host, {}) if "measures" in words else ({}, host)
            cluster, head = started_head({**client, **first})
            nodes += [head, added(cluster, **second)]
            if client:
                until(lambda port=port: is_open(port))  # a busy machine starts it late, and a search knocks once
            say(f"{cluster.address} 127.0.0.1:{port}")
        elif words == ["kill"]:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            say("killed")
        else:
            cluster.shutdown()
            say("ended")
            return


def started_head(more: dict[str, Any]) -> tuple[Cluster, Any]:
    for last in range(1, TRIES + 1):
        cluster = Cluster()
        try:
            return cluster, cluster.add_node(**node(), include_dashboard=False, **more)
        except Exception:  # Ray raises no error of its own
            if last == TRIES:
                raise
            cluster.shutdown()
    raise AssertionError


def added(cluster: Cluster, **more: Any) -> Any:
    for last in range(1, TRIES + 1):
        try:
            return cluster.add_node(**node(), **more)
        except Exception:  # Ray raises no error of its own
            if last == TRIES:
                raise
    raise AssertionError


def node() -> dict[str, Any]:
    return {**NODE, **{name: free_port() for name in PORTS}}


def say(text: str) -> None:
    print(f"> {text}", flush=True)


if __name__ == "__main__":
    main()
