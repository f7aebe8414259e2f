"""What every stage rests on: asked for twice it runs once, and what it made is kept for the next search."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from advisor.catalog.cards import Card
from advisor.datasets.changes import require_unchanged
from advisor.engine.pipeline import jobs
from advisor.engine.pipeline.context import Context, Part
from advisor.engine.progress import WAITS
from advisor.isolation import Limits, Pause
from advisor.isolation.pools import EXPECTED_BYTES, HEAVY, LIGHT, TRAINERS
from advisor.store.hashing import sha256_file

Result = TypeVar("Result")

CONVERT_LIMITS = Limits(seconds=600, memory_bytes=3_000_000_000)
CONVERT_BYTES_A_VALUE = 64
"""Memory that a conversion may take on top for each value of the model: the converter holds the values some sixteen
times over, at four bytes each (1.6 GB for the 102 MB of ResNet-50)."""

WORK_LIMITS = Limits(seconds=1800, memory_bytes=3_000_000_000)
TRAIN_LIMITS = Limits(seconds=24 * 3600, memory_bytes=8_000_000_000)

WORK_BYTES, CONVERT_BYTES, TRAIN_BYTES = (EXPECTED_BYTES[kind] for kind in (LIGHT, HEAVY, TRAINERS))

_pause: ContextVar[Pause | None] = ContextVar("pause", default=None)
"""Of the stage whose jobs are being called: a thread that fills a stage's folder takes it over from the stage."""

EPOCHS_EVERY_S = 2.0
"""How often the epochs of a training are counted."""


@dataclass(frozen=True)
class Form:
    """A float file of a card, the origin of its artefacts."""

    path: Path
    sha256: str

    @classmethod
    def within(cls, folder: Path) -> Form:
        """Return the file that a stage left in its folder."""
        path = folder / "model.tflite"
        return cls(path, sha256_file(path))


class _Wait:
    """How long a stage worked, and whether it waited for another search that was at it: one does it for both."""

    def __init__(self, pause: Pause, notify: Callable[[str], None]) -> None:
        self.notify, self.begun = notify, False
        self._pause, self._start = pause, time.monotonic()

    @property
    def worked_s(self) -> float:
        """Seconds since the stage began in which it did not stand still for a measurement."""
        return time.monotonic() - self._start - self._pause.paused_s

    def begins(self, who: str) -> None:
        """Say for whom."""
        self.begun = True
        self.notify(f"{WAITS}{who}")


class StageRunner:
    """Runs stages: once each, on a core of the machine, and keeps what they make in the artifact cache.

    Args:
        context: what the stages of a search share.
        order: card name to its place in the queue for cores.
    """

    def __init__(self, context: Context, order: Mapping[str, int]) -> None:
        self.context = context
        self.spent: dict[str, float] = {}
        self._order = order
        self._tasks: dict[tuple[str, ...], asyncio.Task[Any]] = {}

    async def once(self, key: tuple[str, ...], make: Callable[[], Awaitable[Result]]) -> Result:
        """Return what ``make`` returned the first time that it was asked for by this key."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(make())
            task.add_done_callback(_looked_at)
        return await asyncio.shield(task)

    def has(self, stage: str, inputs: Mapping[str, Any]) -> bool:
        """Return whether an earlier search has kept what the stage makes of these inputs."""
        return self.context.cache.has(stage, inputs)

    async def kept(
        self,
        stage: str,
        doing: str,
        card: Card,
        inputs: Mapping[str, Any],
        make: Callable[[Path], None],
        memory_bytes: int = WORK_BYTES,
    ) -> Path:
        """Return the stage's folder in the cache, taking a core to fill it where it is not there.

        Args:
            stage: its name and version, such as ``score-1``.
            doing: what is being done, for the progress.
            card: of which card.
            inputs: everything that the result depends on; its hash is the key.
            make: fills the folder.
            memory_bytes: what that is expected to take.
        """
        context = self.context
        if self.has(stage, inputs):
            context.notify(stage, card.name, doing, "cached")
            return context.cache.folder(stage, inputs)
        _pause.set(pause := Pause())
        async with self.core(card, memory_bytes, pause):
            context.notify(stage, card.name, doing, "started")
            wait = _Wait(pause, lambda event: context.notify(stage, card.name, doing, event))
            folder = await asyncio.to_thread(context.cache.get, stage, inputs, make, wait.begins)
            self._done(stage, wait)
            return folder

    async def trained(
        self,
        stage: str,
        doing: str,
        card: Card,
        inputs: Mapping[str, Any],
        make: Callable[[Path, Path, Pause], None],
        epochs: Callable[[Path], tuple[int, int] | None],
    ) -> Path:
        """Return the folder of a stage that takes many minutes, and that measurements stop for a while.

        Args:
            stage: as of :meth:`kept`.
            doing: likewise.
            card: likewise.
            inputs: likewise.
            make: fills the folder; keeps checkpoints in its second argument, which stay until it is done, whatever
                happens to this process; its call can be stopped by the third.
            epochs: reads from the checkpoints how many epochs of how many are done.
        """
        context, pause = self.context, Pause()
        if self.has(stage, inputs):
            context.notify(stage, card.name, doing, "cached")
            return context.cache.folder(stage, inputs)
        checkpoints = context.cache.folder(stage, inputs).with_suffix(".checkpoints")
        async with context.machine.trainer(pause, self._order[card.name], TRAIN_BYTES):
            context.notify(stage, card.name, doing, "started")
            wait = _Wait(pause, lambda event: context.notify(stage, card.name, doing, event))
            watch = asyncio.ensure_future(self._watch(stage, card, doing, lambda: epochs(checkpoints)))
            try:
                folder = await asyncio.to_thread(
                    context.cache.get,
                    stage,
                    inputs,
                    lambda out: make(out, checkpoints, pause),
                    wait.begins,
                )
            finally:
                watch.cancel()
            await asyncio.to_thread(shutil.rmtree, checkpoints, ignore_errors=True)
            self._done(stage, wait)
            return folder

    def _done(self, stage: str, wait: _Wait) -> None:
        """Count what a stage took without standing still; of one that another search did nothing."""
        if not wait.begun:
            self.spent[stage] = self.spent.get(stage, 0.0) + wait.worked_s
        wait.notify("cached" if wait.begun else "done")

    async def _watch(self, stage: str, card: Card, doing: str, epochs: Callable[[], tuple[int, int] | None]) -> None:
        told = None
        while True:
            await asyncio.sleep(EPOCHS_EVERY_S)
            now = await asyncio.to_thread(epochs)
            if now is not None and now != told:
                told = now
                self.context.notify(stage, card.name, doing, f"epoch {now[0]} of {now[1]}")

    def core(
        self, card: Card, memory_bytes: int = WORK_BYTES, pause: Pause | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Hold one core, in the card's turn."""
        return self.context.machine.core(self._order[card.name], memory_bytes, pause)

    def light(self, job: str, *arguments: Any) -> Any:
        """Run a function of :mod:`advisor.engine.pipeline.jobs` in a child without TensorFlow."""
        return self.context.light.call(f"{jobs.__name__}:{job}", *arguments, limits=WORK_LIMITS, pause=_pause.get())

    def light_on(self, images: Part, job: str, *arguments: Any) -> Any:
        """Run such a job that reads pictures; it fails where they are not those any more that were listed."""
        result = self.light(job, *arguments)
        require_unchanged(images.paths, images.stamps)
        return result

    def training_on(self, images: Part, pause: Pause, job: str, *arguments: Any) -> Any:
        """Run a job that learns from pictures in a child that trains, on a GPU where TensorFlow sees one."""
        call = self.context.trainers.call
        result = call(f"{jobs.__name__}:{job}", *arguments, limits=TRAIN_LIMITS, pause=pause)
        require_unchanged(images.paths, images.stamps)
        return result

    def learning(self, job: str, *arguments: Any, limits: Limits) -> Any:
        """Run a job that learns for a few minutes, in a child that trains: its kernels are the faster ones."""
        return self.context.trainers.call(f"{jobs.__name__}:{job}", *arguments, limits=limits, pause=_pause.get())

    def heavy(self, job: str, *arguments: Any, limits: Limits = CONVERT_LIMITS) -> Any:
        """Run a function of :mod:`advisor.engine.pipeline.jobs` in a child that imports TensorFlow."""
        return self.context.heavy.call(f"{jobs.__name__}:{job}", *arguments, limits=limits, pause=_pause.get())


def convert_limits(card: Card) -> Limits:
    """Return what the card's conversion may use: large models need more memory."""
    return replace(CONVERT_LIMITS, memory_bytes=CONVERT_LIMITS.memory_bytes + CONVERT_BYTES_A_VALUE * card.params)


def convert_bytes(card: Card) -> int:
    """Return the memory that the card's conversion is expected to take."""
    return CONVERT_BYTES + CONVERT_BYTES_A_VALUE * card.params


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Whoever waited for a stage may be gone, at a limit: its failure is then nobody's."""
    if not task.cancelled():
        task.exception()


def write_result(folder: Path, value: Any) -> None:
    """Keep what a job returned beside what it wrote."""
    (folder / "result.json").write_text(json.dumps(value), encoding="utf-8")


def read_result(folder: Path) -> Any:
    """Return what the job returned."""
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))
