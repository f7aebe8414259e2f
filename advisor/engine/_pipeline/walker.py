"""Run a stage graph: each stage once in a search, or not at all if the cache has its result.

The evaluator and the scorer await :meth:`Walker.run` for the stages whose figures they need; the
stages before them follow from the graph. A stage waits for its inputs, then for a core or for the
whole machine. Its job runs in a child process, by its ``module:function`` name; a timing is called
in a thread here, and starts its own child. Callers that cannot await use :func:`run_coroutine`.
"""

import asyncio
import contextlib
import json
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Set
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from advisor.core import HOST, AdvisorError, StageError, Status
from advisor.datasets import require_unchanged
from advisor.engine._execution import Machine, OnDevice, Waits, call_locally
from advisor.engine._pipeline.lookup import list_cached_folders
from advisor.engine._pipeline.materials import DAMAGED, Materials, read_result
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.stage import (
    RESULT,
    EpochCount,
    Folders,
    Results,
    Stage,
    StageAborted,
    abort_stage,
)
from advisor.engine._pipeline.stage_events import EventKind, Listener, StageEvent
from advisor.isolation import UNWANTED, Children, Pause, Scratch

Result = TypeVar("Result")
# Returns the seconds by the clock and the CPU seconds of a job so far, as a StageEvent names them.
MeasureWork = Callable[[], dict[str, float]]

SO_FAR = "so-far"  # Folder among checkpoints: the result of a job that a time limit ended
EPOCHS_EVERY_S = 2.0  # Seconds between two counts of a long stage's epochs
_NO_EPOCHS = 0, 0, 0.0


@dataclass(frozen=True)
class Workers:
    """The places where the jobs of a search run.

    ``pools``: child processes by pool; a pool that is missing is not needed. ``on_device`` calls a
    measurement on the machine with the device. ``priority``: card name to its place in the queue
    for cores. ``spare``: the cards whose jobs run on the time that those of others leave.
    """

    machine: Machine
    pools: Mapping[str, Children]
    on_device: OnDevice = call_locally
    priority: Mapping[str, float] = field(default_factory=dict)
    spare: Set[str] = frozenset()

    def is_spare(self, stage: Stage[Any]) -> bool:
        """Return whether the job of a stage runs on the time that others leave."""
        return stage.scope.card in self.spare and stage.resources.pool is Pool.LIGHT


class Walker:
    """Runs the stages of a graph, each once in a search,
    and caches their results for the next search.

    The cost of a search is the sum of its stages, never the product of its choices.
    ``remeasure`` takes cached timings again.
    """

    def __init__(
        self,
        materials: Materials,
        workers: Workers,
        listener: Listener = lambda _event: None,
        remeasure: bool = False,
    ) -> None:
        self.materials = materials
        self.workers = workers
        self._listener = listener
        self._remeasure = remeasure
        self._tasks: dict[Stage[Any], asyncio.Task[Any]] = {}

    async def run(self, stage: Stage[Result]) -> Result:
        """Return the result of a stage after the stages that it needs, once in a search.

        Raises:
            StageAborted: the stage, or one that it needs, fails.
        """
        task = self._tasks.get(stage)
        if task is None:
            task = asyncio.ensure_future(self._run(stage))
            self._tasks[stage] = task
            # Retrieve a failure that no caller awaits any more, for example after a time limit.
            task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        # A caller that is cancelled leaves the stage to the others that await it.
        return cast("Result", await asyncio.shield(task))

    async def drop(self, cards: Collection[str] | None = None) -> None:
        """End the stages of cards that are not done, with their child processes; None for all
        cards. A stage that is needed later runs again.
        """
        dropped = []
        for stage, task in tuple(self._tasks.items()):
            if not task.done() and (cards is None or stage.scope.card in cards):
                dropped.append(self._tasks.pop(stage))
        for task in dropped:
            task.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)

    def forget_failures(self) -> None:
        """Forget the stages that have failed, so that they run again where they are needed."""
        for stage, task in tuple(self._tasks.items()):
            if task.done() and (task.cancelled() or task.exception() is not None):
                del self._tasks[stage]

    def has(self, stage: Stage[Any]) -> bool:
        """Return whether this search has the result of a stage."""
        task = self._tasks.get(stage)
        if task is None or not task.done() or task.cancelled():
            return False
        return task.exception() is None

    async def _run(self, stage: Stage[Result]) -> Result:
        if stage.unsupported:
            raise StageAborted(Status.SKIPPED, stage.name, stage.unsupported)
        before = await asyncio.gather(*map(self.run, stage.after))
        results = Results(dict(zip(stage.after, before, strict=True)))
        try:
            run = _StageRun(stage, self.materials, results, self.workers, self._listener)
            again = self._remeasure and stage.resources.alone
            return cast("Result", await run.find_or_compute(again))
        except (AdvisorError, OSError) as error:
            raise abort_stage(error, stage.name, stage.scope.compression) from error


@dataclass(frozen=True)
class _StageRun:
    """One stage whose inputs are known."""

    stage: Stage[Any]
    materials: Materials
    results: Results
    workers: Workers
    listener: Listener

    async def find_or_compute(self, again: bool) -> Any:
        """Return the stage's result from the cache unless ``again``, or compute it;
        a damaged one is computed again.
        """
        for cached in list_cached_folders(self.stage, self.materials, self.results):
            if again:
                shutil.rmtree(cached, ignore_errors=True)
            if await asyncio.to_thread(self.materials.cache.has, cached):
                with contextlib.suppress(*DAMAGED):
                    result = await self._read(cached)
                    self._tell(EventKind.CACHED)
                    return result
                # Only one that was there: another search may have made it since,
                # and may read it now.
                shutil.rmtree(cached, ignore_errors=True)
        return await self._compute()

    async def _compute(self) -> Any:
        """Compute the result as soon as its resources are free; another search may do it first."""
        holders: list[str] = []

        def note_holder(holder: str) -> None:
            holders.append(holder)
            self._tell_waiting(f"the same work in another search, {holder}")

        # The card may be moved to the front of the queue meanwhile: the job stays what it is.
        is_spare = self.workers.is_spare(self.stage)
        async with self._hold_resources(is_spare) as pause:
            self._tell(EventKind.STARTED)
            started = time.monotonic()

            def measure_work() -> dict[str, float]:
                seconds = time.monotonic() - started - pause.paused_s
                # A measurement has the machine alone.
                return {"seconds": seconds, "cpu_s": pause.cpu_s or seconds}

            result, (done, epochs, share) = await self._do_work(
                pause, is_spare, note_holder, measure_work
            )
        # This search did nothing if another one made the result meanwhile.
        kind = EventKind.CACHED if holders else EventKind.DONE
        self._tell(kind, **measure_work(), epochs=(done, epochs), share=share)
        return result

    async def _do_work(
        self,
        pause: Pause,
        is_spare: bool,
        note_holder: Waits,
        measure_work: MeasureWork,
    ) -> tuple[Any, EpochCount]:
        """Compute a result; return it with its epochs if a time limit ended the job."""
        cache = self.materials.cache
        inputs = self.stage.inputs(self.materials, self.results)
        checkpoints = cache.folder(self.stage.folder, inputs).with_suffix(".checkpoints")

        def fill(folder: Path) -> None:
            self._call_or_repeat(Folders(folder, checkpoints), pause, is_spare)
            if not self._is_complete(folder):
                so_far = checkpoints / SO_FAR
                shutil.rmtree(so_far, ignore_errors=True)
                shutil.copytree(folder, so_far)
                raise _EndedEarly(so_far)

        if self.stage.resources.alone:
            UNWANTED.set(pause.unwanted)
            return await asyncio.to_thread(self._measure, fill), _NO_EPOCHS
        watch = asyncio.ensure_future(self._tell_epochs(checkpoints, measure_work))
        try:
            folder = await asyncio.to_thread(
                cache.get, self.stage.folder, inputs, fill, note_holder
            )
        except _EndedEarly as end:
            return await self._read(end.folder), self._count_epochs(checkpoints) or _NO_EPOCHS
        finally:
            watch.cancel()
        await asyncio.to_thread(shutil.rmtree, checkpoints, ignore_errors=True)
        return await self._read(folder), _NO_EPOCHS

    def _is_complete(self, folder: Path) -> bool:
        """Return whether a result is complete;
        a job of another kind than training has no other ones.
        """
        alone = self.stage.resources.alone
        keep_if = self.stage.keep_if
        return alone or keep_if is None or keep_if(read_result(folder))

    def _measure(self, fill: Callable[[Path], None]) -> Any:
        """Measure, and cache the result only if the stage allows it."""
        with Scratch() as folder:
            fill(folder)
            result = self.stage.read(folder)
            if self.stage.keep_if is None or self.stage.keep_if(read_result(folder)):
                inputs = self.stage.inputs(self.materials, self.results)
                self.materials.cache.get(self.stage.folder, inputs, partial(_copy_files, folder))
            return result

    def _call_or_repeat(self, folders: Folders, pause: Pause, is_spare: bool) -> None:
        """Do the job; once more if it is a training whose process crashed."""
        try:
            self._call(folders, pause, is_spare)
        except StageError as error:
            if self.stage.epochs is None or not error.is_crash:
                raise
            self._tell(EventKind.CRASHED)
            # It goes on from its checkpoints.
            # Its job is made again, because a time limit leaves less than before.
            self._call(folders, pause, is_spare)

    def _call(self, folders: Folders, pause: Pause, is_spare: bool) -> None:
        """Do the job where it belongs, and write what it returned into its folder."""
        job = self.stage.job(self.materials, self.results, folders)
        assert not job.keywords, "only positional arguments travel to a child process"
        if self.stage.resources.alone:
            returned = self.workers.on_device(HOST, job.func, *job.args)
        else:
            pool = self.workers.pools[Pool.SPARE if is_spare else self.stage.resources.pool]
            limits = self.stage.resources.limits
            function = f"{job.func.__module__}:{job.func.__name__}"
            returned = pool.call(function, *job.args, limits=limits, pause=pause)
        if self.stage.reads is not None:
            images = self.stage.reads(self.materials)
            require_unchanged(images.paths, images.stamps)
        if returned is not None:
            (folders.out / RESULT).write_text(json.dumps(returned), encoding="utf-8")

    @asynccontextmanager
    async def _hold_resources(self, is_spare: bool) -> AsyncIterator[Pause]:
        """Hold a core, the whole machine, or what others leave of it, in the card's turn."""
        resources = self.stage.resources
        machine = self.workers.machine
        pause = Pause()
        priority = self.workers.priority.get(self.stage.scope.card, 0.0)
        if is_spare:
            held = machine.spare(pause, resources.memory_bytes)
        elif resources.alone:
            held = machine.alone(priority)
        elif resources.long:
            soon = self.materials.limit_s(self.stage.scope, 0.0) is not None
            held = machine.trainer(
                pause, priority, resources.memory_bytes, soon, self._tell_waiting
            )
        else:
            held = machine.core(priority, resources.memory_bytes, pause, self._tell_waiting)
        try:
            async with held:
                yield pause
        except BaseException:
            pause.end()
            self._tell(EventKind.ENDED)
            raise

    async def _tell_epochs(self, checkpoints: Path, measure_work: MeasureWork) -> None:
        """Tell of each epoch of a training until this is cancelled; of other work, nothing."""
        last = None
        while self.stage.epochs is not None:
            await asyncio.sleep(EPOCHS_EVERY_S)
            now = await asyncio.to_thread(self._count_epochs, checkpoints)
            if now is not None and now != last:
                last = now
                done, epochs, share = now
                self._tell(EventKind.EPOCH, **measure_work(), epochs=(done, epochs), share=share)

    def _count_epochs(self, checkpoints: Path) -> EpochCount | None:
        if self.stage.epochs is None:
            return None
        return self.stage.epochs(self.materials, self.results)(checkpoints)

    async def _read(self, folder: Path) -> Any:
        """Return the result in a folder of the cache, after what the stage does with each."""
        if self.stage.when_done is not None:
            await asyncio.to_thread(self.stage.when_done, self.materials, self.results, folder)
        return self.stage.read(folder)

    def _tell_waiting(self, what: str) -> None:
        self._tell(EventKind.WAITING, waits_for=what)

    def _tell(self, kind: EventKind, **facts: Any) -> None:
        self.listener(StageEvent(self.stage, kind, **facts))


class _EndedEarly(Exception):
    """A time limit ended a job: its result lies in ``folder`` and is not cached."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files without the permissions of their temporary folder."""
    for file in source.iterdir():
        shutil.copyfile(file, target / file.name)


def run_coroutine(work: Coroutine[object, object, Result]) -> Result:
    """Run a coroutine in a new thread and return its result, or raise what it raised.

    The calling thread may have a running event loop, as in a notebook.
    An interrupt reaches the caller at once.
    """
    result: Future[Result] = Future()

    def run() -> None:
        try:
            result.set_result(asyncio.run(work))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="advisor-coroutine", daemon=True).start()
    return result.result()
