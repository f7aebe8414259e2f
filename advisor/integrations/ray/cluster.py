"""Run jobs on the CPUs and GPUs of a Ray cluster, and measurements on the node that has the device."""

import contextlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from advisor.core.errors import StageError, UsageError, last_line
from advisor.core.figures import HOST
from advisor.engine.execution import Machine
from advisor.integrations.ray import Roster, connect, node as ray_node, resource_of
from advisor.integrations.ray.node import Arguments, CallResult, Outgoing, contents
from advisor.isolation import CallLimits, Pause
from advisor.isolation.pool import EXPECTED_BYTES, POOLS, TRAINERS
from advisor.measurement import host

Result = TypeVar("Result")

RETRIES = 3
"""A job fails after this many nodes died while running it."""

KEPT_BUNDLES = 64
"""Number of bundles of files that stay in the object store for later jobs."""

LOOKS_EVERY_S = 5.0
LOST_AFTER_S = 120.0
"""A job fails if no node of the cluster can run it for this long. Until then, another node may join."""

PAUSES_WITHIN_S = 20.0


_ON_THE_HEAD = {
    "num_cpus": 0,
    "resources": {"node:__internal_head__": 0.001},
    "max_restarts": -1,
    "max_task_retries": -1,
}
"""The switches run on the head node: the cluster ends with it, while any other node may die."""


class RayExecutor:
    """A Ray cluster.

    Args:
        address: see :func:`advisor.integrations.ray.connect`.
        workers: how many jobs run at the same time at most; 0 for one per CPU of the cluster.
        shared: a folder that every node sees under the same name; None to send files through the object store.

    Raises:
        UsageError: the cluster cannot be reached, has no CPU, or a node has other package versions than this machine.
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
        cpus = int(self._roster.total("CPU"))
        if cpus < 1:
            raise UsageError("--executor: the cluster has no CPU for jobs", "add a node: ray start --address=HOST:PORT")
        self._switches = self._ray.remote(ray_node.Switches).options(**_ON_THE_HEAD).remote()
        self.machine = Machine(
            min(workers or cpus, cpus), separate_measurements=not self._roster.measure_where_jobs_run()
        )
        self._host_is_a_node = bool(self._roster.total(resource_of(HOST)))
        self.host = self.on_device(HOST, host.describe)
        self.pools = {kind: _RayChildren(self, kind) for kind in POOLS}

    def on_device(self, device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
        """Call a measuring function on the node that offers ``device:NAME``, or here if no node offers it.

        Raises:
            StageError: the node died, and no other offers the device. This machine never replaces a lost node that
                offered ``host``, because its timings would be taken for those of the other machine.
        """
        self._wait_for_trainers()
        host_is_lost = device == HOST and self._host_is_a_node
        if not host_is_lost and not self._roster.total(resource_of(device)):
            return function(*arguments)
        options = {"num_cpus": 0, "resources": {resource_of(device): 1}}
        return cast("Result", self._run(device, options, ray_node.measurement, arguments, function).value)

    def job(
        self, kind: str, function: str, arguments: Arguments, limits: CallLimits | None, pause: Pause | None
    ) -> CallResult:
        """Run a job on any node; if that node dies, on another one."""
        trainer = uuid.uuid4().hex if pause is not None else ""
        options = needs(kind, gpus=self._roster.total("GPU"), memory_bytes=self._roster.most("memory"))
        with self._pausable(pause, trainer):
            return self._run(kind, options, ray_node.job, arguments, kind, function, limits, self._switches, trainer)

    def close(self) -> None:
        """Cancel running jobs, delete the search's files on the nodes, and leave the cluster."""
        if self._closed:
            return
        self._closed = True
        self.cancel()
        with contextlib.suppress(Exception):  # a node that is gone has no files to delete
            self._roster.on_every_node(ray_node.tidy, self.session, timeout_s=LOOKS_EVERY_S)
        self._sent.clear()
        self._ray.shutdown()

    def cancel(self, kind: str = "") -> None:
        """Cancel the running jobs of a kind; of every kind if it is empty."""
        for reference in [each for each, its in self._running.items() if kind in ("", its)]:
            self._cancel(reference)

    def _cancel(self, reference: object) -> None:
        with contextlib.suppress(Exception):  # the job may be done, or its node gone
            self._ray.cancel(reference, force=True)

    def _run(
        self,
        kind: str,
        options: Mapping[str, Any],
        task: Callable[..., CallResult],
        arguments: Arguments,
        *more: object,
    ) -> CallResult:
        """Run a task on a node with the files that are among the arguments, and write the files that it made.

        Raises:
            AdvisorError: of the task; a StageError also if the node, the worker or the connection is gone.
        """
        outgoing = Outgoing(self._send, self._shared)
        packed = outgoing.pack(arguments)
        remote = self._roster.remote(task).options(max_retries=RETRIES, **options)
        reference = remote.remote(self.session, packed, outgoing.bundles, *more)
        self._running[reference] = kind
        try:
            self._wait(reference, options)
            found: CallResult = self._ray.get(reference)
        except StageError:
            raise
        except Exception as error:  # of Ray or gRPC: the node, the worker or the connection is gone
            raise StageError(f"the cluster lost the job: {last_line(str(error)) or type(error).__name__}") from None
        finally:
            self._running.pop(reference, None)
        if found.error is not None:
            raise found.error
        outgoing.unpack(found.files)
        return found

    def _wait(self, reference: object, options: Mapping[str, Any]) -> None:
        amounts = {"CPU": options["num_cpus"], "GPU": options.get("num_gpus", 0), "memory": options.get("memory", 0)}
        wanted = {**amounts, **options.get("resources", {})}
        possible = time.monotonic()
        while not self._ray.wait([reference], timeout=LOOKS_EVERY_S)[0]:
            lacking = [name for name, count in wanted.items() if self._roster.most(name) < count]
            if not lacking:
                possible = time.monotonic()
            elif time.monotonic() - possible > LOST_AFTER_S:
                self._cancel(reference)
                raise StageError(f"no node of the cluster offers {', '.join(lacking)} now")

    def _send(self, key: str, paths: Sequence[Path]) -> object:
        with self._lock:
            if key in self._sent:
                self._sent.move_to_end(key)
                return self._sent[key]
        reference: object = self._ray.put(contents(paths))
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

    def _wait_for_trainers(self) -> None:
        """Wait until every trainer that must pause has paused; a trainer whose node died never answers."""
        deadline = time.monotonic() + PAUSES_WITHIN_S
        while not self._ray.get(self._switches.all_followed.remote()) and time.monotonic() < deadline:
            time.sleep(ray_node.LOOKS_EVERY_S)


def needs(kind: str, gpus: float, memory_bytes: float) -> dict[str, float]:
    """Return the resources of a node that a job takes, by Ray's names.

    Args:
        kind: of the child process that runs the job.
        gpus: number of GPUs in the cluster. If there are any, training takes one.
        memory_bytes: memory of the largest node. A job that expects more than that takes the whole node.
    """
    gpu = {"num_gpus": 1.0} if kind == TRAINERS and gpus else {}
    return {"num_cpus": 1.0, "memory": int(min(EXPECTED_BYTES[kind], memory_bytes)), **gpu}


class _RayChildren:
    """Child processes on the nodes, instead of a pool on this machine."""

    def __init__(self, cluster: RayExecutor, kind: str) -> None:
        self._cluster, self._kind = cluster, kind
        self.peak_bytes = 0

    def call(self, function: str, *args: object, limits: CallLimits | None = None, pause: Pause | None = None) -> Any:
        """Run ``module:function`` on any node."""
        found = self._cluster.job(self._kind, function, args, limits, pause)
        self.peak_bytes = max(self.peak_bytes, found.peak_bytes)
        return found.value

    def close(self) -> None:
        """Cancel the running jobs."""
        self._cluster.cancel(self._kind)
