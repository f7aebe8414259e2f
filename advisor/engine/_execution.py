"""Run the work of a search on the cores of this machine, or where an integration runs it.

The walker of the pipeline asks ``Machine`` for a core, or for the whole machine to measure, and
runs the job in a pool of the ``Executor``. Here machines are known, not models: the same stage
runs on this machine and on a cluster. To add an executor, write one class with the members of
:class:`Executor`, and register an :class:`ExecutorSource`: integrations of others depend on both.
"""

import asyncio
import contextvars
import heapq
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from advisor.core import EXECUTORS, LOCAL, load_integration, show_bytes
from advisor.engine._question.values import Execution
from advisor.isolation import (
    ChildPool,
    Children,
    MemoryGate,
    Pause,
    PoolKind,
    read_quota_cores,
    usable_cores,
)
from advisor.measurement import Host, host

Result = TypeVar("Result")

AFTER_JOBS = 1e9
"""Added to the priority of training: jobs of minutes wait for jobs of seconds.
Subtracted if training must end soon.
"""

LOOK_AGAIN_S = 1.0
"""Seconds until the memory for the next job is checked again."""

Waits = Callable[[str], None]
"""Is called with what a job waits for, in words."""


class _Turn(NamedTuple):
    """A caller that waits in a queue. The smallest turn is next: no two have one position."""

    priority: float
    position: int
    granted: asyncio.Future[None]
    memory_bytes: int
    waits: Waits


async def call_in_own_thread(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a call returns, in a thread that nothing waits for when a search ends.

    The threads of an event loop are waited for:
    a call that nobody needs any more would hold up the answer.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        # If it is done, nobody waits any more.
        if not outcome.done():
            set_outcome()

    def work() -> None:
        try:
            result = function(*arguments)
            set_outcome = partial(outcome.set_result, result)
        except BaseException as error:  # the caller raises it again
            set_outcome = partial(outcome.set_exception, error)
        # If the search has ended, its loop is closed.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, set_outcome)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return await outcome


class Machine:
    """Gives ``cores`` cores to jobs, the smallest ``priority`` first,
    and the whole machine to one measurement at a time.

    A measurement pauses the jobs that can be paused and waits for the others. Measurements run in
    batches: a batch starts when ``batch`` of them wait or when no job wants a core, and it ends
    when no measurement waits. The first measurement waits for no other one, the second for one,
    and so on: a search has its first answer soon. If they are separate, they run on a machine
    without jobs, so neither waits for the other.

    ``spare_jobs`` more jobs may run at the lowest priority, on the time that the others leave.
    """

    def __init__(
        self,
        cores: int,
        batch: int = 5,
        memory_gate: MemoryGate | None = None,
        separate_measurements: bool = False,
        spare_jobs: int = 0,
    ) -> None:
        self.cores = cores
        self.spare_jobs = spare_jobs
        self._batch = batch
        self._memory_gate = memory_gate
        self._separate = separate_measurements
        self._measured = 0
        self._looking = False
        self._running = 0
        self._alone = False
        self._draining = False
        self._order = itertools.count()
        self._pausable: list[Pause] = []
        self._spare: list[Pause] = []
        self._spare_turns = asyncio.Semaphore(spare_jobs)
        self._paused = False
        self._jobs: list[_Turn] = []
        self._measurements: list[_Turn] = []
        self._helpers: list[asyncio.Future[None]] = []

    @property
    def trainings(self) -> int:
        """Most trainings at the same time: one here, which has two threads;
        as many as jobs on other machines.
        """
        return self.cores if self._separate else 1

    @asynccontextmanager
    async def core(
        self,
        priority: float = 0.0,
        memory_bytes: int = 0,
        pause: Pause | None = None,
        waits: Waits = lambda _: None,
    ) -> AsyncIterator[None]:
        """Hold one core; wait until the memory that the job is expected to take is free,
        and tell ``waits`` about it.

        Measurements wait for jobs that have no ``pause``.
        """
        await self._wait(self._jobs, priority, memory_bytes, waits)
        if pause is not None:
            self._pausable.append(pause)
            asyncio.get_running_loop().call_soon(self._grant)
        try:
            yield
        finally:
            if pause is not None:
                self._pausable.remove(pause)
            self._running -= 1
            self._grant()

    @asynccontextmanager
    async def trainer(
        self,
        pause: Pause,
        priority: float = 0.0,
        memory_bytes: int = 0,
        first: bool = False,
        waits: Waits = lambda _: None,
    ) -> AsyncIterator[None]:
        """Hold one core for training, which starts after all other jobs;
        before them if ``first``.
        """
        rank = priority - AFTER_JOBS if first else priority + AFTER_JOBS
        async with self.core(rank, memory_bytes, pause, waits):
            yield

    @asynccontextmanager
    async def spare(self, pause: Pause, memory_bytes: int = 0) -> AsyncIterator[None]:
        """Hold what other jobs leave of the cores, once the memory is free.

        The job is expected to run at the lowest priority. Measurements pause it, and nothing waits
        for it.
        """
        async with self._spare_turns:
            gate = self._memory_gate
            while gate is not None and not gate.admits(memory_bytes, self._running):
                await asyncio.sleep(LOOK_AGAIN_S)
            if gate is not None:
                gate.note_start(memory_bytes)
            self._spare.append(pause)
            if self._paused:
                pause.pause()
            try:
                yield
            finally:
                self._spare.remove(pause)

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Do a short piece of work beside the jobs, without a core:
        no measurement runs meanwhile.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._helpers.append(turn)
        self._grant()
        try:
            await turn
            yield
        finally:
            self._helpers.remove(turn)
            self._grant()

    @asynccontextmanager
    async def alone(self, priority: float = 0.0) -> AsyncIterator[None]:
        """Hold the whole machine."""
        await self._wait(self._measurements, priority)
        try:
            yield
        finally:
            self._alone = False
            # Wait one turn of the event loop:
            # the same caller may queue its next measurement before jobs start again.
            asyncio.get_running_loop().call_soon(self._grant)

    async def _wait(
        self,
        queue: list[_Turn],
        priority: float,
        memory_bytes: int = 0,
        waits: Waits = lambda _: None,
    ) -> None:
        """Wait in a queue for a turn;
        a turn that comes after the caller was cancelled is given back.
        """
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        turn = _Turn(priority, next(self._order), granted, memory_bytes, waits)
        heapq.heappush(queue, turn)
        loop.call_soon(self._grant)
        try:
            await granted
        except asyncio.CancelledError:
            # The turn may have been granted in the moment in which its caller was cancelled:
            # nobody else would give it back.
            if granted.done() and not granted.cancelled():
                if queue is self._jobs:
                    self._running -= 1
                else:
                    self._alone = False
                self._grant()
            raise

    def _grant(self) -> None:
        """Give turns: helpers, then jobs, or one measurement as soon as no job runs beside it."""
        for queue in (self._jobs, self._measurements):
            # Cancelled callers leave their entries.
            # They are removed in place, because `_wait` tells the queues apart by identity.
            queue[:] = [turn for turn in queue if not turn.granted.done()]
            heapq.heapify(queue)
        # Helpers use this machine. On separate machines they disturb no measurement,
        # so they never wait.
        if self._separate or not self._alone:
            for helper in self._helpers:
                if not helper.done():
                    helper.set_result(None)
        if self._separate:
            if self._measurements and not self._alone:
                self._start_measurement()
            self._start_jobs()
        else:
            self._grant_by_batches()

    def _grant_by_batches(self) -> None:
        """Give turns on one machine: to measurements in batches, and to jobs between these."""
        waiting = len(self._measurements)
        # Jobs that can be paused do not hold up a measurement:
        # they are stopped for it (decision 0008).
        busy = self._running - len(self._pausable) + len(self._helpers)
        # Training is queued behind AFTER_JOBS.
        # Where nothing else is queued, a measurement has no more company to wait for.
        idle = busy == 0 and not any(turn.priority < AFTER_JOBS for turn in self._jobs)
        # The batch grows by one with each measurement,
        # so that the first answer comes at once and later ones share a pause.
        enough = min(self._batch, 1 + self._measured)
        # A batch that has begun goes on until no measurement waits,
        # so that the jobs are stopped once for all of them.
        self._draining = waiting > 0 and (self._draining or idle or waiting >= enough)
        if self._alone:
            return
        if self._draining:
            if busy == 0:
                self._pause_jobs(True)
                self._start_measurement()
            return
        self._pause_jobs(False)
        self._start_jobs()

    def _start_measurement(self) -> None:
        self._alone = True
        self._measured += 1
        heapq.heappop(self._measurements).granted.set_result(None)

    def _start_jobs(self) -> None:
        """Give turns to jobs while there are free cores, and memory for the next one."""
        while self._jobs and self._running < self.cores:
            turn = self._jobs[0]
            if self._memory_gate is not None:
                if not self._memory_gate.admits(turn.memory_bytes, self._running):
                    # A smaller job further back does not overtake:
                    # the large one could then wait for ever.
                    turn.waits(f"{show_bytes(turn.memory_bytes)} of free memory")
                    self._look_again()
                    return
                self._memory_gate.note_start(turn.memory_bytes)
            self._running += 1
            heapq.heappop(self._jobs).granted.set_result(None)

    def _look_again(self) -> None:
        """Check again later: memory can become free although no job of this search has ended."""

        def look() -> None:
            self._looking = False
            self._grant()

        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, look)

    def _pause_jobs(self, wanted: bool) -> None:
        """Pause the jobs that can be paused, or let them go on."""
        # `_grant` runs at every change of a queue;
        # the children get a signal only when the wish changes.
        if wanted == self._paused:
            return
        for job in (*self._pausable, *self._spare):
            if wanted:
                job.pause()
            else:
                job.resume()
        self._paused = wanted


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS in this process to one thread:
    the sampler's matrices are small, and jobs use the cores.

    With two threads beside busy child processes, a suggestion took four times as long.
    """
    import numpy  # noqa: F401  # threadpoolctl limits only libraries that are loaded
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1, user_api="blas"):
        yield


class OnDevice(Protocol):
    """Calls a measuring function on the machine that has the device."""

    def __call__(
        self, device: str, function: Callable[..., Result], /, *arguments: object
    ) -> Result:
        """Return ``function(*arguments)``, called on the machine with ``device``."""


class Executor(Protocol):
    """Runs jobs in child processes, and measurements on the machine that has the device."""

    @property
    def machine(self) -> Machine:
        """Decides when a job or a measurement may start."""

    @property
    def pools(self) -> Mapping[str, Children]:
        """Child processes by kind: see :class:`advisor.isolation.PoolKind`."""

    @property
    def host(self) -> Host:
        """The machine that measures the device ``host``."""

    def on_device(
        self, device: str, function: Callable[..., Result], /, *arguments: object
    ) -> Result:
        """Call a measuring function on the machine with the device;
        on another machine, one call at a time.
        """

    def close(self) -> None:
        """End every child process, also the busy ones."""


class ExecutorSource(Protocol):
    """A module or an object that makes an executor;
    registered by its name in ``advisor.executors``.
    """

    VALUES: str
    """The values of ``--executor`` that mean it, with a word on each."""

    def require_installed(self) -> None:
        """Raise a ``UsageError`` if a package is not installed:
        before the images are read, which takes minutes.
        """

    def executor(self, execution: Execution) -> Executor:
        """Return the connected executor.

        Raises:
            UsageError: it cannot be reached, or a package that it needs is not installed.
        """


class LocalExecutor:
    """Child processes on the cores of this machine. A measurement gets the whole machine.

    ``log`` returns the file that takes their output, None to show it.
    """

    def __init__(self, workers: int, log: Callable[[], Path | None]) -> None:
        self._log = log
        self.machine = Machine(
            workers, memory_gate=MemoryGate(), spare_jobs=count_spare_jobs(workers)
        )
        self.host = host.describe()

    @cached_property
    def pools(self) -> Mapping[str, ChildPool]:
        """Child processes by kind."""
        return {kind: kind.open(self._log()) for kind in PoolKind}

    def begin(self) -> None:
        """Start the child that converts networks:
        where a core is free, it imports TensorFlow while a search plans.
        """
        if self.machine.cores > 1:
            self.pools[PoolKind.HEAVY].begin()

    def on_device(
        self, device: str, function: Callable[..., Result], /, *arguments: object
    ) -> Result:
        """Call a measuring function on this machine."""
        return function(*arguments)

    def close(self) -> None:
        """End every child process."""
        # None was made if nothing was called.
        for pool in self.__dict__.get("pools", {}).values():
            pool.close()


def count_spare_jobs(workers: int) -> int:
    """Return how many jobs of the lowest priority may run beside ``workers`` others.

    None where the user, or a quota, gives a search fewer cores than there are: such a job would
    take a core that is not given, or a part of the quota. One core has no time to spare.
    """
    if workers < max(2, usable_cores()) or read_quota_cores() is not None:
        return 0
    return workers


def call_locally(_device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
    """Call a measuring function on this machine, which has a connection to every device."""
    return function(*arguments)


def require_executor(execution: Execution) -> None:
    """Refuse an executor whose packages are not installed: UsageError."""
    if execution.executor != LOCAL:
        source: ExecutorSource = load_integration(EXECUTORS, execution.executor)
        source.require_installed()


def executor_for(execution: Execution, log: Callable[[], Path | None]) -> Executor:
    """Return the connected executor;
    ``log`` returns the file for the output of local child processes, None to show it.

    One that cannot be reached, or whose package is not installed, is a UsageError.
    """
    if execution.executor == LOCAL:
        return LocalExecutor(execution.cores, log)
    source: ExecutorSource = load_integration(EXECUTORS, execution.executor)
    return source.executor(execution)
