"""Connect to a Ray cluster, or start one on this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from advisor.core.errors import UsageError, message_of

CONNECT_S = 5.0
ANSWER_S = 60.0
CLIENT_PORT = 10001

OWN = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # despite its name, it makes nodes bind to 127.0.0.1 on every system
    "RAY_agent_register_timeout_ms": "200000",  # importing Ray's agents is slow on a busy machine
    "RAY_raylet_start_wait_time_s": "200",
}
"""Environment of a cluster that is started here: only this machine can reach it, and it may start slowly."""


def connect(address: str, cores: int, resources: Mapping[str, float]) -> Any:
    """Connect to a cluster and return the module ``ray``.

    Args:
        address: ``host:port`` of the cluster's client server. If it is empty, ``$RAY_ADDRESS`` is used; if that is not
            set either, a cluster is started on this machine, which ends with this process.
        cores: CPUs of a cluster that is started here.
        resources: further resources of a cluster that is started here.

    Raises:
        UsageError: Ray is not installed, or no cluster answers at the address.
    """
    if find_spec("ray") is None:
        raise UsageError("--executor: Ray is not installed", "pip install 'advisor[ray]'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    given = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS", "")
    if given:
        return _joined(given)
    for name, value in OWN.items():
        os.environ.setdefault(name, value)
    import ray

    try:
        ray.init(
            address="local",
            num_cpus=cores,
            resources=dict(resources),
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except Exception as error:  # Ray defines no error class for a failed start
        raise UsageError(
            f"--executor: Ray cannot be started here: {message_of(error)}", "use --executor local"
        ) from None
    return ray


def _joined(address: str) -> Any:
    _knock(address)
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # from Ray, gRPC or a socket: in every case the address cannot be used
        raise _unreachable(address, message_of(error)) from None
    return ray


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
