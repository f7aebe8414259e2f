"""The machines of a Ray cluster: jobs by CPUs and GPUs, measurements by the device that a node has."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from advisor.benchmark import host
from advisor.core.errors import StageError, UsageError
from advisor.core.figures import HOST
from advisor.isolation import Limits, Pause
from advisor.isolation.pools import HEAVY, LIGHT, TRAINERS
from advisor.search.executors import ray_node
from advisor.search.executors.node import Outcome
from advisor.search.executors.parcels import Outgoing, contents
from advisor.search.executors.ray_connection import ANSWER_S, connect
from advisor.search.machine import Machine

Result = TypeVar("Result")

RETRIES = 3
"""So many nodes may die under one job before it counts as failed."""

KEPT_BUNDLES = 64
"""So many files, or sets of pictures, stay in the object store for further jobs."""

LOOKS_EVERY_S = 5.0
LOST_AFTER_S = 120.0
"""A job that no node of the cluster can do any more fails after so long: another node may join."""

SETTLES_S = 20.0


_ON_THE_HEAD = {
    "num_cpus": 0,
    "resources": {"node:__internal_head__": 0.001},
    "max_restarts": -1,
    "max_task_retries": -1,
}
"""Where the switches live: no other node's death takes them along, and with the head's all is over."""


class RayExecutor:
    """A cluster.

    Args:
        address: see :func:`advisor.search.executors.ray_connection.connect`.
        workers: how many jobs run side by side at most, 0 for one a CPU of the cluster.
        shared: folder that every node sees under the same name; empty to send files through the object store.

    Raises:
        UsageError: it cannot be reached, has no CPU, or a node has other versions than this machine.
    """

    def __init__(self, address: str, workers: int, shared: str) -> None:
        self._ray = connect(address, workers or host.describe().cores, {_resource(HOST): 1})
        self._shared = Path(shared).resolve() if shared else None
        self.session = uuid.uuid4().hex[:16]
        self._sent: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self._flying: dict[Any, str] = {}
        self._remote: dict[Callable[..., Any], Any] = {}
        _require_same(self._everywhere(ray_node.versions))
        cpus = int(self._total("CPU"))
        if cpus < 1:
            raise UsageError("--executor: the cluster has no CPU for jobs", "add a node: ray start --address=HOST:PORT")
        self._switches = self._ray.remote(ray_node.Switches).options(**_ON_THE_HEAD).remote()
        self.machine = Machine(min(workers or cpus, cpus), apart=not self._measures_where_jobs_run())
        self.host = self.on_device(HOST, ray_node.host)
        self.light, self.heavy, self.trainers = (_RayChildren(self, kind) for kind in (LIGHT, HEAVY, TRAINERS))

    def on_device(self, device: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a measurement on the node that offers ``device:NAME``, here where none does.

        Raises:
            StageError: the node died, and no other offers the device.
        """
        self._settle()
        if not self._total(_resource(device)):
            return function(*arguments)
        outgoing = Outgoing(self._send, self._shared)
        packed = outgoing.pack(arguments)
        options = {"num_cpus": 0, "resources": {_resource(device): 1}}
        found = self._outcome(device, ray_node.measurement, options, function, self.session, packed, outgoing.bundles)
        return self._taken(found, outgoing)  # type: ignore[no-any-return]

    def job(
        self, kind: str, function: str, arguments: Sequence[Any], limits: Limits | None, pause: Pause | None
    ) -> Outcome:
        """Run a job on some node, and on another where that one dies."""
        outgoing = Outgoing(self._send, self._shared)
        packed = outgoing.pack(tuple(arguments))
        trainer = uuid.uuid4().hex if pause is not None else ""
        gpus = {"num_gpus": 1} if kind == TRAINERS and self._total("GPU") else {}
        options = {"num_cpus": 1, **gpus}
        work = (kind, function, self.session, packed, outgoing.bundles, limits, self._switches, trainer)
        with self._pausable(pause, trainer):
            found = self._outcome(kind, ray_node.job, options, *work)
        self._taken(found, outgoing)
        return found

    def close(self) -> None:
        """Stop what is in flight, take away what lies on the nodes, and leave the cluster."""
        if self._closed:
            return
        self._closed = True
        self.cancel()
        with contextlib.suppress(Exception):  # nodes that are gone have nothing to be taken away
            self._everywhere(partial(ray_node.tidy, self.session), timeout_s=LOOKS_EVERY_S)
        self._sent.clear()
        self._ray.shutdown()

    def cancel(self, kind: str = "") -> None:
        """Stop the tasks in flight of a kind, of every kind where none is named, however busy."""
        for reference in [each for each, its in self._flying.items() if kind in ("", its)]:
            self._cancel(reference)

    def _cancel(self, reference: Any) -> None:
        with contextlib.suppress(Exception):  # it may be over, or its node gone
            self._ray.cancel(reference, force=True)

    def _as_remote(self, task: Callable[..., Any]) -> Any:
        """Return the task as Ray knows it; made once, as each one made is sent to every node."""
        if task not in self._remote:
            self._remote[task] = self._ray.remote(task)
        return self._remote[task]

    def _outcome(self, kind: str, task: Callable[..., Outcome], options: Mapping[str, Any], *arguments: Any) -> Outcome:
        reference = self._as_remote(task).options(max_retries=RETRIES, **options).remote(*arguments)
        self._flying[reference] = kind
        try:
            self._wait(reference, options)
            found: Outcome = self._ray.get(reference)
            return found
        except StageError:
            raise
        except Exception as error:  # of Ray or gRPC: the node, the worker or the connection is gone
            lines = str(error).strip().splitlines()
            raise StageError(f"the cluster lost it: {lines[-1][:300] if lines else type(error).__name__}") from None
        finally:
            self._flying.pop(reference, None)

    def _wait(self, reference: Any, options: Mapping[str, Any]) -> None:
        wanted = {"CPU": options["num_cpus"], "GPU": options.get("num_gpus", 0), **options.get("resources", {})}
        possible = time.monotonic()
        while not self._ray.wait([reference], timeout=LOOKS_EVERY_S)[0]:
            if all(self._total(name) >= count for name, count in wanted.items()):
                possible = time.monotonic()
            elif time.monotonic() - possible > LOST_AFTER_S:
                self._cancel(reference)
                names = ", ".join(name for name, count in wanted.items() if self._total(name) < count)
                raise StageError(f"no node of the cluster offers {names} any more")

    @staticmethod
    def _taken(found: Outcome, outgoing: Outgoing) -> Any:
        if found.error is not None:
            raise found.error
        outgoing.unpack(found.files)
        return found.value

    def _send(self, key: str, paths: Sequence[Path]) -> Any:
        with self._lock:
            if key in self._sent:
                self._sent.move_to_end(key)
                return self._sent[key]
        reference = self._ray.put(contents(paths))
        with self._lock:
            self._sent[key] = reference
            while len(self._sent) > KEPT_BUNDLES:
                self._sent.popitem(last=False)
        return reference

    @contextlib.contextmanager
    def _pausable(self, pause: Pause | None, trainer: str) -> Any:
        if pause is None:
            yield
            return
        pause.reach(lambda number: self._switches.want.remote(trainer, number == ray_node.STOPS))
        try:
            yield
        finally:
            pause.detach()
            self._switches.drop.remote(trainer)

    def _settle(self) -> None:
        """Wait until trainers stand still that are to; one whose node died never says so."""
        deadline = time.monotonic() + SETTLES_S
        while not self._ray.get(self._switches.settled.remote()) and time.monotonic() < deadline:
            time.sleep(ray_node.LOOKS_EVERY_S)

    def _measures_where_jobs_run(self) -> bool:
        """True where the machine that measures ``host`` also takes jobs: neither may run beside the other then."""
        offering = [node["NodeManagerHostname"] for node in self._alive() if _resource(HOST) in node["Resources"]]
        measuring = offering or [socket.gethostname()]
        return any(node["NodeManagerHostname"] in measuring and node["Resources"].get("CPU") for node in self._alive())

    def _total(self, resource: str) -> float:
        return float(sum(node["Resources"].get(resource, 0.0) for node in self._alive()))

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _everywhere(self, task: Callable[[], Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """Return what a task returns on each node, by the node's name."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        references = {}
        for node in self._alive():
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = self._as_remote(_called).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:8]})"
            references[name] = remote.remote(task)
        return {name: self._answer(name, reference, timeout_s) for name, reference in references.items()}

    def _answer(self, name: str, reference: Any, timeout_s: float) -> Any:
        try:
            return self._ray.get(reference, timeout=timeout_s)
        except Exception as error:  # most likely a node without advisor, which cannot import the task
            lines = str(error).strip().splitlines()
            raise UsageError(
                f"--executor: the node {name} cannot work: {lines[-1][:200] if lines else type(error).__name__}",
                "every node needs advisor in the version of this machine: pip install 'advisor[ray]'",
            ) from None


class _RayChildren:
    """Children on the nodes, in the place of a pool of this machine's."""

    def __init__(self, cluster: RayExecutor, kind: str) -> None:
        self._cluster, self._kind = cluster, kind
        self._closed = False
        self.peak_bytes = 0

    def call(
        self, function: str, *args: Any, limits: Limits | None = None, pause: Pause | None = None, **kwargs: Any
    ) -> Any:
        """Run ``module:function`` on some node."""
        found = self._cluster.job(self._kind, function, args, limits, pause)
        self.peak_bytes = max(self.peak_bytes, found.peak_bytes)
        return found.value

    def close(self) -> None:
        """Stop what is in flight."""
        self._cluster.cancel(self._kind)


def _called(task: Callable[[], Any]) -> Any:
    return task()


def _resource(device: str) -> str:
    return f"device:{device}"


def _require_same(found: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse nodes that would make other files than this machine."""
    own = ray_node.versions()
    for name, theirs in found.items():
        other = [
            f"{package} {theirs[package]}, not {own[package]}" for package in own if theirs[package] != own[package]
        ]
        if other:
            raise UsageError(
                f"--executor: the node {name} has {'; '.join(other)}", "install the same versions on every node"
            )
