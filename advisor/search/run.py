"""One search from question to evaluations, in its run folder."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor import __version__
from advisor.benchmark import host
from advisor.compression.recipes import Recipe
from advisor.core.evaluation import Evaluation, Status
from advisor.isolation import ChildPool
from advisor.search.context import Context, card_hash, versions
from advisor.search.evaluate import Evaluator
from advisor.search.machine import Machine
from advisor.search.plan import Plan
from advisor.search.prepare import Candidates, chosen_cards, chosen_recipes, find_weights, make_plan, read_pictures
from advisor.search.progress import Progress
from advisor.search.request import Request, usable_cores
from advisor.search.stages import Stages
from advisor.search.study import Study
from advisor.store import ArtifactCache, RunFolder

CARDS_IN_FLIGHT = 3
"""How many cards' configurations are handed out at a time: enough to keep the cores busy across measurements."""

RESCUED = 2
"""How many of the fastest cards are trained all the same where none can meet the latency budget."""

PACKAGES = (
    "tensorflow", "keras", "ai-edge-litert", "ai-edge-quantizer", "optuna", "scikit-learn", "scikit-image", "numpy",
    "pillow",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a search left behind.

    Attributes:
        run: its folder.
        interrupted: it was stopped by the user; ``--resume`` goes on.
    """

    run: RunFolder
    interrupted: bool


def run_search(request: Request, progress: Progress, resume: Path | None = None, verbose: bool = False) -> Outcome:
    """Answer ``request`` in a new run folder, or go on with the run in ``resume``.

    The work happens in a thread with an event loop of its own, so that it also runs where a loop runs already, as in a
    notebook, and so that an interrupt reaches the caller's thread and stops the search in order.

    Raises:
        UsageError: the question, the pictures, the catalogue or the output folder is at fault; nothing was spent.
        WeightsError: no candidate's weights can be had.
    """
    search = _Search(request, progress, resume, verbose)
    worker = threading.Thread(target=search.work, name="advisor-search", daemon=True)
    with search.run.hold():
        worker.start()
        interrupted = _wait(worker, search.stop)
        if search.error is not None:
            raise search.error
    return Outcome(search.run, interrupted)


def _wait(worker: threading.Thread, stop: Callable[[], None]) -> bool:
    interrupted = False
    while worker.is_alive():
        try:
            worker.join(0.5)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            stop()
    return interrupted


class _Search:
    """The state of one search while it runs."""

    def __init__(self, request: Request, progress: Progress, resume: Path | None, verbose: bool) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self.request = request
        self.recipes = chosen_recipes(request)
        cards = chosen_cards(request)
        self.pictures = read_pictures(request, progress.say)
        self.run = RunFolder.open(resume) if resume else RunFolder.create(Path(request.out), _slug(request))
        if not resume:
            self.run.write_request(request.to_dict())
        self._write_pictures()
        self._cards = cards
        self._log = None if verbose else self.run.log_file
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self.error: BaseException | None = None

    def work(self) -> None:
        """Run the search; what it raises is left in ``error``."""
        try:
            candidates = find_weights(self.request, self._cards, self._progress.say)
            asyncio.run(self._work(candidates))
        except BaseException as error:  # it is raised again in the caller's thread
            self.error = error
        finally:
            self._progress.close()

    def stop(self) -> None:
        """End the search in order: what is in flight is dropped, what is done is kept."""
        self._progress.say("stopping: keeping what is done")
        if self._loop and self._stopping:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def _work(self, candidates: Candidates) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_default_executor(ThreadPoolExecutor(32))
        plan = make_plan(self.request, candidates, self.recipes, self.pictures)
        done = [e.configuration for e in self.run.evaluations()]
        study = Study(self.run.study_file, plan, self.request.limits, self.request.sampler, self.request.seed, done)
        self._write_manifest(candidates, plan)
        with ChildPool(self._log) as heavy, ChildPool(self._log) as light:
            evaluator = self._evaluator(candidates, plan, heavy, light)
            self._progress.start(plan, len(done))
            await self._evaluate_all(study, evaluator, plan)
            await self._rescue(evaluator, plan)
            spent = {stage: round(seconds, 1) for stage, seconds in sorted(evaluator.spent.items())}
            peak = max(heavy.peak_bytes, light.peak_bytes)
            self._write_manifest(candidates, plan, spent, children_peak_bytes=peak)

    def _evaluator(self, candidates: Candidates, plan: Plan, heavy: ChildPool, light: ChildPool) -> Evaluator:
        context = Context(
            request=self.request,
            pictures=self.pictures,
            cache=ArtifactCache(),
            machine=Machine(usable_cores()),
            heavy=heavy,
            light=light,
            notify=self._progress.stage,
        )
        # Of what is in flight the cheapest goes first: answers come early, and the cores stay busy to the end.
        by_price = sorted(plan.cards, key=lambda card: plan.price_s(card, "float32"))
        order = {card.name: place for place, card in enumerate(by_price)}
        stages = Stages(context, candidates.weights, order)
        cards = {card.name: card for card in plan.cards}
        recipes: dict[str, Recipe] = self.recipes
        return Evaluator(context, stages, cards, recipes, self.run, order)

    async def _evaluate_all(self, study: Study, evaluator: Evaluator, plan: Plan) -> None:
        """Keep some cards' configurations in flight until the study, the time or the user's patience ends."""
        at_most = CARDS_IN_FLIGHT * len(plan.recipes) * len(plan.threads)
        left = self.request.max_trials or plan.size
        flying: set[asyncio.Task[Evaluation]] = set()
        assert self._stopping is not None
        stopped = asyncio.ensure_future(self._stopping.wait())
        while True:
            while left and len(flying) < at_most and (configuration := study.ask()) is not None:
                flying.add(asyncio.ensure_future(evaluator.evaluate(configuration)))
                left -= 1
            if not flying:
                break
            finished, _ = await asyncio.wait(
                {*flying, stopped}, timeout=self._time_left(), return_when="FIRST_COMPLETED"
            )
            for task in finished - {stopped}:
                flying.remove(task)  # type: ignore[arg-type]
                self._record(task.result(), study)  # type: ignore[arg-type]
            if stopped in finished or self._time_left() == 0:
                break
        await _cancel([*flying, stopped])

    async def _rescue(self, evaluator: Evaluator, plan: Plan) -> None:
        """Where every card was too slow to be trained, train the fastest: the least-bad answer needs figures too."""
        evaluations = self.run.evaluations()
        if any(e.status is Status.OK for e in evaluations) or self._stopping is None or self._stopping.is_set():
            return
        screened = {e.configuration.card for e in evaluations if e.stage == "screen"}
        fastest = sorted((card for card in plan.cards if card.name in screened), key=lambda card: card.macs)[:RESCUED]
        evaluator.screening = False
        for card in fastest:
            again = [c for c in plan.configurations() if c.card == card.name]
            for evaluation in await asyncio.gather(*(evaluator.evaluate(c) for c in again)):
                self.run.append(evaluation)

    def _record(self, evaluation: Evaluation, study: Study) -> None:
        self.run.append(evaluation)
        study.tell(evaluation)
        self._progress.evaluated(evaluation)

    def _time_left(self) -> float | None:
        limit = self.request.time_limit_s
        return None if limit is None else max(0.0, limit - (time.monotonic() - self._started))

    def _write_pictures(self) -> None:
        if self.pictures is None:
            return
        dataset, split = self.pictures.dataset, self.pictures.split
        self.run.write_json("split.json", split.to_json(dataset))
        counts = dict(zip(dataset.classes, dataset.counts, strict=True))
        rejected = [{"path": str(row.path), "reason": row.reason} for row in dataset.rejected]
        self.run.write_json(
            "dataset.json",
            {
                "folder": str(dataset.root),
                "pictures_per_class": counts,
                "train": len(split.train),
                "holdout": len(split.holdout),
                "rejected": rejected,
                "fingerprint": dataset.fingerprint,
            },
        )

    def _write_manifest(
        self, candidates: Candidates, plan: Plan, spent: Mapping[str, float] | None = None, **more: Any
    ) -> None:
        weights = {
            name: {"sha256": file.sha256, "source": file.source} if file else "settled random weights"
            for name, file in candidates.weights.items()
        }
        self.run.write_json(
            "manifest.json",
            {
                "advisor": __version__,
                "command_line": sys.argv,
                "updated": datetime.now(UTC).isoformat(timespec="seconds"),
                "versions": {"python": sys.version.split()[0], **versions(*PACKAGES)},
                "host": host.describe().to_json(),
                "seeds": {"seed": self.request.seed},
                "data_fingerprint": self.pictures.dataset.fingerprint if self.pictures else "",
                "weights": weights,
                "cards": {card.name: card_hash(card) for card in self._cards},
                "without_weights": dict(candidates.missing),
                "configurations": plan.size,
                "durations": {"search": round(time.monotonic() - self._started, 1), **(spent or {})},
                "parent_peak_bytes": _peak_bytes(),
                **more,
            },
        )


def _peak_bytes() -> int:
    """Return the most resident memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _slug(request: Request) -> str:
    name = Path(request.data).resolve().name if request.data else request.task
    return f"{name}-{request.budget}" if request.budget else name
