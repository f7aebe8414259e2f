"""A Ray cluster, named or started here:
jobs run on its CPUs and GPUs, measurements on the node that has the device.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from advisor.core import (
    HOST,
    StageError,
    UsageError,
    install_extra,
    last_line,
    message_of,
    require_extra,
    units,
)
from advisor.engine import Machine
from advisor.integrations.ray import _node as ray_node
from advisor.integrations.ray._node import Arguments, CallResult, Outgoing, read_contents
from advisor.isolation import EXPECTED_BYTES, TRAINERS, CallLimits, Pause, map_pools
from advisor.measurement import host

if TYPE_CHECKING:
    from advisor.engine import Execution, Executor

Result = TypeVar("Result")

VALUES = "ray (a cluster of this machine, started where none runs), ray://host:10001"

CONNECT_S = 5.0
ANSWER_S = 60.0
CLIENT_PORT = 10001

OWN = {
    # With this variable nodes bind to 127.0.0.1 on every system, not only on those of its name.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Importing Ray's agents is slow on a busy machine.
    "RAY_agent_register_timeout_ms": "200000",
    "RAY_raylet_start_wait_time_s": "200",
}
"""Environment of a cluster that is started here:
only this machine can reach it, and it may start slowly.
"""

RETRIES = 3
"""A job fails after this many nodes died while running it."""

KEPT_BUNDLES = 64
"""Number of bundles of files that stay in the object store for later jobs."""

LOOKS_EVERY_S = 5.0
LOST_AFTER_S = 120.0
"""A job fails if no node of the cluster can run it for this long.
Until then, another node may join.
"""

PAUSES_WITHIN_S = 20.0

_ON_HEAD = {
    "num_cpus": 0,
    "resources": {"node:__internal_head__": 1e-3},
    "max_restarts": -1,
    "max_task_retries": -1,
}
"""The switches run on the head node: the cluster ends with it, while any other node may die."""


def require_installed() -> None:
    """Refuse to go on without Ray: UsageError."""
    require_extra("ray", "ray", "--executor: Ray is not installed")


def executor(execution: Execution) -> Executor:
    """Return the connected executor; see :class:`advisor.engine._execution.ExecutorSource`."""
    return RayExecutor(execution.cluster, execution.workers, execution.shared_folder)


def connect(address: str, cores: int) -> Any:
    """Connect to a cluster and return the module ``ray``.

    The address is ``host:port`` of the cluster's client server. If it is empty, ``$RAY_ADDRESS``
    is used; if that is not set either, a cluster with ``cores`` CPUs is started here. It measures
    ``host``, and ends with this process. Raises UsageError: Ray is not installed, or no cluster
    answers at the address.
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
        for name, value in OWN.items():
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
    """The nodes of a cluster that are alive at the time of each call;
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
        return any(
            node["NodeManagerHostname"] in measuring and node["Resources"].get("CPU")
            for node in self._alive()
        )

    def list_offered(self, resource: str) -> list[float]:
        """Return how much of a resource each node offers."""
        return [float(node["Resources"].get(resource, 0.0)) for node in self._alive()]

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
            # Without a CPU, so that also a node answers whose CPUs are all taken by jobs.
            remote = self.remote(task).options(
                num_cpus=0, max_retries=0, scheduling_strategy=there
            )
            name = (
                f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']},"
                f" {node['NodeID'][:8]})"
            )
            references[name] = remote.remote(*arguments)
        return {
            name: self._answer(name, reference, timeout_s)
            for name, reference in references.items()
        }

    def _answer(self, name: str, reference: object, timeout_s: float) -> Any:
        try:
            return self._ray.get(reference, timeout=timeout_s)
        # Most likely advisor is not installed on the node, which cannot import the task.
        except Exception as error:
            raise UsageError(
                f"--executor: the node {name} cannot work:"
                f" {last_line(str(error)) or type(error).__name__}",
                "every node needs the same version of advisor as this machine:"
                f" {install_extra('ray')}",
            ) from None

    def require_same(self) -> None:
        """Refuse nodes with other package versions,
        which would make other files than this machine: UsageError.
        """
        versions_here = ray_node.versions()
        for node, versions in self.on_every_node(ray_node.versions).items():
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


class RayExecutor:
    """A Ray cluster at an address; see :func:`connect`.

    At most ``workers`` jobs run at the same time; 0 for one per CPU. Files are sent through the
    object store, but for those in a ``shared`` folder that every node sees under the same name.
    Raises UsageError: the cluster cannot be reached, has no CPU, or a node has other package
    versions than this machine.
    """

    def __init__(self, address: str, workers: int, shared: Path | None) -> None:
        self._ray = connect(address, workers or host.describe().cores)
        self._shared = shared.resolve() if shared else None
        self.session = uuid.uuid4().hex[:16]
        self._sent: OrderedDict[str, object] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self._running: dict[object, str] = {}
        self._roster = Roster(self._ray)
        self._roster.require_same()
        cpus = int(sum(self._roster.list_offered("CPU")))
        if cpus < 1:
            raise UsageError(
                "--executor: the cluster has no CPU for jobs",
                "add a node: ray start --address=HOST:PORT",
            )
        self._switches = self._ray.remote(ray_node.Switches).options(**_ON_HEAD).remote()
        apart = not self._roster.measure_where_jobs_run()
        self.machine = Machine(min(workers or cpus, cpus), separate_measurements=apart)
        self._host_is_a_node = any(self._roster.list_offered(resource_of(HOST)))
        self.host = self.on_device(HOST, host.describe)
        self.pools = {kind: _RayChildren(self, kind) for kind in map_pools()}

    def on_device(
        self, device: str, function: Callable[..., Result], /, *arguments: object
    ) -> Result:
        """Call a measuring function on the node that offers ``device:NAME``,
        or here if no node offers it.

        This machine never replaces a lost node that offered ``host``, because its timings would be
        taken for those of the other machine. Raises StageError: the node died, and no other offers
        the device.
        """
        # Every trainer must have paused; one whose node died never answers.
        deadline = time.monotonic() + PAUSES_WITHIN_S
        while (
            not self._ray.get(self._switches.all_followed.remote()) and time.monotonic() < deadline
        ):
            time.sleep(ray_node.LOOKS_EVERY_S)
        host_is_lost = device == HOST and self._host_is_a_node
        if not host_is_lost and not any(self._roster.list_offered(resource_of(device))):
            return function(*arguments)
        # A paused job keeps its CPU in Ray's count,
        # so a measurement that asked for one could wait without end.
        options = {"num_cpus": 0, "resources": {resource_of(device): 1}}
        return cast(
            "Result", self._run(device, options, ray_node.measurement, arguments, function).value
        )

    def job(
        self,
        kind: str,
        function: str,
        arguments: Arguments,
        limits: CallLimits | None,
        pause: Pause | None,
    ) -> CallResult:
        """Run a job on any node; if that node dies, on another one."""
        trainer = uuid.uuid4().hex if pause is not None else ""
        largest = max(self._roster.list_offered("memory"), default=0.0)
        options = needs_of(kind, gpus=sum(self._roster.list_offered("GPU")), memory_bytes=largest)
        with self._pausable(pause, trainer):
            return self._run(
                kind,
                options,
                ray_node.job,
                arguments,
                kind,
                function,
                limits,
                self._switches,
                trainer,
            )

    def close(self) -> None:
        """Cancel running jobs, delete the search's files on the nodes, and leave the cluster."""
        if self._closed:
            return
        self._closed = True
        self.cancel()
        # A node that is gone has no files to delete.
        with contextlib.suppress(Exception):
            self._roster.on_every_node(ray_node.tidy_spool, self.session, timeout_s=LOOKS_EVERY_S)
        self._sent.clear()
        self._ray.shutdown()

    def cancel(self, kind: str = "") -> None:
        """Cancel the running jobs of a kind; of every kind if it is empty."""
        # A copy: jobs that end meanwhile take themselves out of the list.
        for reference, kind_of_job in list(self._running.items()):
            if kind in ("", kind_of_job):
                # The job may be done, or its node gone.
                with contextlib.suppress(Exception):
                    self._ray.cancel(reference, force=True)

    def _run(
        self,
        kind: str,
        options: Mapping[str, Any],
        task: Callable[..., CallResult],
        given: Arguments,
        *more: object,
    ) -> CallResult:
        """Run a task on a node with the files among its arguments, and write those that it
        made.
        """
        outgoing = Outgoing(self._send, self._shared)
        packed = outgoing.pack(given)
        remote = self._roster.remote(task).options(max_retries=RETRIES, **options)
        reference = remote.remote(self.session, packed, outgoing.bundles, *more)
        self._running[reference] = kind
        try:
            self._wait(reference, options)
            result: CallResult = self._ray.get(reference)
        except StageError:
            raise
        # Ray or gRPC raises it if the node, the worker or the connection is gone.
        except Exception as error:
            raise StageError(
                f"the cluster lost the job: {last_line(str(error)) or type(error).__name__}"
            ) from None
        finally:
            self._running.pop(reference, None)
        if result.error is not None:
            raise result.error
        outgoing.unpack(result.files)
        return result

    def _wait(self, reference: object, options: Mapping[str, Any]) -> None:
        amounts = {
            "CPU": options["num_cpus"],
            "GPU": options.get("num_gpus", 0),
            "memory": options.get("memory", 0),
        }
        wanted = {**amounts, **options.get("resources", {})}
        possible = time.monotonic()
        while not self._ray.wait([reference], timeout=LOOKS_EVERY_S)[0]:
            lacking = []
            for name, amount in wanted.items():
                # One node must offer all of it: a job cannot be divided.
                if max(self._roster.list_offered(name), default=0.0) < amount:
                    lacking.append(name)
            if not lacking:
                possible = time.monotonic()
            elif time.monotonic() - possible > LOST_AFTER_S:
                # Its node may be gone.
                with contextlib.suppress(Exception):
                    self._ray.cancel(reference, force=True)
                raise StageError(f"no node of the cluster offers {', '.join(lacking)} now")

    def _send(self, key: str, paths: Sequence[Path]) -> object:
        with self._lock:
            if key in self._sent:
                self._sent.move_to_end(key)
                return self._sent[key]
        # Outside of the lock, because other calls need not wait while files are read and sent.
        reference: object = self._ray.put(read_contents(paths))
        with self._lock:
            self._sent[key] = reference
            while len(self._sent) > KEPT_BUNDLES:
                self._sent.popitem(last=False)
        return reference

    @contextlib.contextmanager
    def _pausable(self, pause: Pause | None, trainer: str) -> Iterator[None]:
        if pause is None:
            yield
            return
        pause.attach(lambda number: self._switches.want.remote(trainer, number == ray_node.STOPS))
        try:
            yield
        finally:
            pause.detach()
            self._switches.drop.remote(trainer)


def needs_of(kind: str, gpus: float, memory_bytes: float) -> dict[str, float]:
    """Return the resources of a node that a job of a kind takes, by Ray's names.

    Training takes a GPU if the cluster has any. A job that expects more memory than that of the
    largest node, ``memory_bytes``, takes the whole node.
    """
    gpu = {}
    if kind == TRAINERS and gpus:
        gpu = {"num_gpus": 1.0}
    return {"num_cpus": 1.0, "memory": int(min(EXPECTED_BYTES[kind], memory_bytes)), **gpu}


class _RayChildren:
    """Child processes on the nodes, instead of a pool on this machine."""

    def __init__(self, cluster: RayExecutor, kind: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self.peak_bytes = 0

    def call(
        self,
        function: str,
        *args: object,
        limits: CallLimits | None = None,
        pause: Pause | None = None,
    ) -> Any:
        """Run ``module:function`` on any node."""
        result = self._cluster.job(self._kind, function, args, limits, pause)
        self.peak_bytes = max(self.peak_bytes, result.peak_bytes)
        if pause is not None:
            pause.cpu_s = result.cpu_s
        return result.value

    def close(self) -> None:
        """Cancel the running jobs."""
        self._cluster.cancel(self._kind)
