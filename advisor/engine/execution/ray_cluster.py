"""The machines of a Ray cluster: jobs by CPUs and GPUs, measurements by the device that a node has."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from advisor.core.errors import StageError, UsageError, last_line
from advisor.core.figures import HOST
from advisor.engine.execution import ray_node
from advisor.engine.execution.file_transfer import Outgoing, contents
from advisor.engine.execution.machine import Machine
from advisor.engine.execution.node import Outcome
from advisor.engine.execution.ray_connection import connect
from advisor.engine.execution.ray_roster import Roster, resource_of
from advisor.isolation import Limits, Pause
from advisor.isolation.pools import EXPECTED_BYTES, HEAVY, LIGHT, TRAINERS
from advisor.measurement import host

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
        address: see :func:`advisor.engine.execution.ray_connection.connect`.
        workers: how many jobs run side by side at most, 0 for one a CPU of the cluster.
        shared: folder that every node sees under the same name; None to send files through the object store.

    Raises:
        UsageError: it cannot be reached, has no CPU, or a node has other versions than this machine.
    """

    def __init__(self, address: str, workers: int, shared: Path | None) -> None:
        self._ray = connect(address, workers or host.describe().cores, {resource_of(HOST): 1})
        self._shared = shared.resolve() if shared else None
        self.session = uuid.uuid4().hex[:16]
        self._sent: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self._flying: dict[Any, str] = {}
        self._roster = Roster(self._ray)
        self._roster.require_same()
        cpus = int(self._roster.total("CPU"))
        if cpus < 1:
            raise UsageError("--executor: the cluster has no CPU for jobs", "add a node: ray start --address=HOST:PORT")
        self._switches = self._ray.remote(ray_node.Switches).options(**_ON_THE_HEAD).remote()
        self.machine = Machine(min(workers or cpus, cpus), apart=not self._roster.measure_where_jobs_run())
        self._host_is_a_node = bool(self._roster.total(resource_of(HOST)))
        self.host = self.on_device(HOST, ray_node.host)
        self.light, self.heavy, self.trainers = (_RayChildren(self, kind) for kind in (LIGHT, HEAVY, TRAINERS))

    def on_device(self, device: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a measurement on the node that offers ``device:NAME``, here where none does.

        Raises:
            StageError: the node died, and no other offers the device. Where the node is gone that is called ``host``,
                this machine does not stand in for it: its timings would pass for the other's.
        """
        self._settle()
        kept = device == HOST and self._host_is_a_node
        if not kept and not self._roster.total(resource_of(device)):
            return function(*arguments)
        outgoing = Outgoing(self._send, self._shared)
        packed = outgoing.pack(arguments)
        options = {"num_cpus": 0, "resources": {resource_of(device): 1}}
        found = self._outcome(device, ray_node.measurement, options, function, self.session, packed, outgoing.bundles)
        return self._taken(found, outgoing)  # type: ignore[no-any-return]

    def job(
        self, kind: str, function: str, arguments: Sequence[Any], limits: Limits | None, pause: Pause | None
    ) -> Outcome:
        """Run a job on some node, and on another where that one dies."""
        outgoing = Outgoing(self._send, self._shared)
        packed = outgoing.pack(tuple(arguments))
        trainer = uuid.uuid4().hex if pause is not None else ""
        options = needs(kind, gpus=self._roster.total("GPU"), memory_bytes=self._roster.most("memory"))
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
            self._roster.everywhere(partial(ray_node.tidy, self.session), timeout_s=LOOKS_EVERY_S)
        self._sent.clear()
        self._ray.shutdown()

    def cancel(self, kind: str = "") -> None:
        """Stop the tasks in flight of a kind, of every kind where none is named, however busy."""
        for reference in [each for each, its in self._flying.items() if kind in ("", its)]:
            self._cancel(reference)

    def _cancel(self, reference: Any) -> None:
        with contextlib.suppress(Exception):  # it may be over, or its node gone
            self._ray.cancel(reference, force=True)

    def _outcome(self, kind: str, task: Callable[..., Outcome], options: Mapping[str, Any], *arguments: Any) -> Outcome:
        reference = self._roster.remote(task).options(max_retries=RETRIES, **options).remote(*arguments)
        self._flying[reference] = kind
        try:
            self._wait(reference, options)
            found: Outcome = self._ray.get(reference)
            return found
        except StageError:
            raise
        except Exception as error:  # of Ray or gRPC: the node, the worker or the connection is gone
            raise StageError(f"the cluster lost it: {last_line(str(error)) or type(error).__name__}") from None
        finally:
            self._flying.pop(reference, None)

    def _wait(self, reference: Any, options: Mapping[str, Any]) -> None:
        amounts = {"CPU": options["num_cpus"], "GPU": options.get("num_gpus", 0), "memory": options.get("memory", 0)}
        wanted = {**amounts, **options.get("resources", {})}
        possible = time.monotonic()
        while not self._ray.wait([reference], timeout=LOOKS_EVERY_S)[0]:
            if all(self._roster.most(name) >= count for name, count in wanted.items()):
                possible = time.monotonic()
            elif time.monotonic() - possible > LOST_AFTER_S:
                self._cancel(reference)
                names = ", ".join(name for name, count in wanted.items() if self._roster.most(name) < count)
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


def needs(kind: str, gpus: float, memory_bytes: float) -> dict[str, float]:
    """Return what of a node a job takes, as Ray counts it.

    Args:
        kind: of the child that does it.
        gpus: how many the cluster has; where it has one, what trains takes one.
        memory_bytes: of the node that offers most: where none has what is expected, the job takes all of that one.
    """
    gpu = {"num_gpus": 1.0} if kind == TRAINERS and gpus else {}
    return {"num_cpus": 1.0, "memory": int(min(EXPECTED_BYTES[kind], memory_bytes)), **gpu}


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
