"""The executor ``ray``: run the jobs of a search on the CPUs and GPUs of a Ray cluster.

The entry point ``advisor.executors`` names this module; the search calls :func:`executor` and
uses what it returns in place of its own child processes. Measurements run on the node that has
the device, and trainers pause meanwhile. ``_cluster.py`` connects, ``_file_transfer.py`` sends
files, ``_node.py`` runs on the nodes. Nodes call its functions by module and name, and request
files have the addresses ``ray://HOST:PORT``: both stay.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from advisor.core import HOST, StageError, UsageError, last_line
from advisor.engine import Machine
from advisor.integrations.ray import _node as ray_node
from advisor.integrations.ray._cluster import Roster, connect, require_installed, resource_of
from advisor.integrations.ray._file_transfer import Arguments, Outgoing, read_contents
from advisor.integrations.ray._node import CallResult
from advisor.isolation import CallLimits, Pause, PoolKind
from advisor.measurement import host

if TYPE_CHECKING:
    from advisor.engine import Execution, Executor

__all__ = ["VALUES", "RayExecutor", "executor", "needs_of", "require_installed"]

Result = TypeVar("Result")

VALUES = "ray (a cluster of this machine, started where none runs), ray://host:10001"

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


def executor(execution: Execution) -> Executor:
    """Return the connected executor; see :class:`advisor.engine._execution.ExecutorSource`."""
    return RayExecutor(execution.cluster, execution.workers, execution.shared_folder)


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
        self.pools: dict[str, _RayChildren] = {kind: _RayChildren(self, kind) for kind in PoolKind}

    def on_device(
        self, device: str, function: Callable[..., Result], /, *arguments: object
    ) -> Result:
        """Call a measuring function on the node that offers ``device:NAME``, or here if no
        node offers it.

        This machine never replaces a lost node that offered ``host``, because its timings would be
        taken for those of the other machine.

        Raises:
            StageError: the node died, and no other offers the device.
        """
        # Every trainer must have paused; one whose node died never answers.
        deadline = time.monotonic() + PAUSES_WITHIN_S
        while time.monotonic() < deadline:
            if self._ray.get(self._switches.all_followed.remote()):
                break
            time.sleep(ray_node.LOOKS_EVERY_S)
        host_is_lost = device == HOST and self._host_is_a_node
        if not host_is_lost and not any(self._roster.list_offered(resource_of(device))):
            return function(*arguments)
        # A paused job keeps its CPU in Ray's count,
        # so a measurement that asked for one could wait without end.
        options = {"num_cpus": 0, "resources": {resource_of(device): 1}}
        result = self._run(device, options, ray_node.run_measurement, arguments, function)
        return cast("Result", result.value)

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
                ray_node.run_job,
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
            self._roster.run_on_every_node(
                ray_node.tidy_spool, self.session, timeout_s=LOOKS_EVERY_S
            )
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
        arguments: Arguments,
        *further_arguments: object,
    ) -> CallResult:
        """Run a task on a node with the files among its arguments, and write those that come back.

        ``further_arguments`` of the task hold no paths.
        """
        outgoing = Outgoing(self._send, self._shared)
        packed = outgoing.pack(arguments)
        remote = self._roster.remote(task).options(max_retries=RETRIES, **options)
        reference = remote.remote(self.session, packed, outgoing.bundles, *further_arguments)
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
        """Wait for a task; StageError once no node has offered what it needs for a while."""
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
    if kind == PoolKind.TRAINERS and gpus:
        gpu = {"num_gpus": 1.0}
    expected_bytes = PoolKind(kind).expected_bytes
    return {"num_cpus": 1.0, "memory": int(min(expected_bytes, memory_bytes)), **gpu}


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
