"""A search on 1, 2 and 4 nodes of one core, and on 2 nodes of two: what it gains, does twice and sends.

Two parts. **Real**: a small search with fine-tuning by this machine alone, and by jobs of the executor ``slurm`` (of
submitit's local kind: real processes on this machine). It shows whether the answers are equal, how often a job is
called, and how many bytes go through the folder. **Simulated**: a search of forty cards on a clock that jumps to the
next event. The search loop, the rule, the sampler and the stage graph are the product's; nodes, results and time are
made up. A call takes the CPU seconds that the plan expects of its stage, the seconds of a call through the executor,
and on the first call of a kind on a node the start of a child process; the last two are measured here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import os
import pickle
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import yaml
from optuna.storages import InMemoryStorage

from advisor import search
from advisor.catalog import Catalogue
from advisor.core import Configuration, Evaluation, Provenance, Quantity, TrainingName
from advisor.engine import Machine, Stage, VariantStages, resolve
from advisor.engine._pipeline.cost import rough_ms, rough_size
from advisor.engine._scheduling.belief import AccuracyBelief, CardTraining
from advisor.engine._scheduling.search_loop import SearchLoop
from advisor.engine._scheduling.study import Study
from advisor.engine._space.plan import Plan
from advisor.integrations import slurm
from advisor.integrations.slurm import SlurmExecutor, read_settings
from advisor.integrations.slurm._calls import Call, CallAnswer, CallFolder
from advisor.isolation import Pause, PoolKind
from advisor.store import RunFolder, cache_root
from benchmarks.tables import Row, keep
from tests.builders import RUNTIME, evaluation
from tests.engine.plans import planned

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
CARDS, IMAGES, VALIDATION, SEEDS = 40, 2000, 400, (0, 1, 2)
REACH = 3.4
"""Speed-up to reach on four nodes: 0.85 of linear."""

STARTS = {
    PoolKind.LIGHT: "builtins:len",
    PoolKind.HEAVY: "builtins:len",
    PoolKind.TRAINERS: "tensorflow:executing_eagerly",
}
"""The first call of a child of each kind, after which its imports are done."""

NOTICED_S, QUEUE_S = 15.0, 60.0
"""Seconds until a node that died is noticed (the interval of ``sacct``), and until the batch system gives another."""

CALLS = 15


def main() -> None:
    """Run a part, or both, and keep their tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("simulated", "real"), help="both by default")
    parser.add_argument("--cards", type=int, default=2, help="cards of the real search")
    parser.add_argument("--jobs", default="1,2,4", help="jobs of the real searches")
    parser.add_argument(
        "--share", type=float, help="cores that each job may take, as a quota of the kernel; root alone"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if given.part != "real":
            print(_simulate(Path(name)))
        if given.part != "simulated":
            _search_for_real(Path(name), given.cards, tuple(map(int, given.jobs.split(","))), given.share)


def _simulate(folder: Path) -> str:
    """Simulate searches and keep their table."""
    call_s, starts = _measured(folder)
    rows = [row for everything in (True, False) for row in _table(folder, everything, call_s, starts)]
    speeds = {row[:2]: str(row[3]) for row in map(tuple, rows)}
    seconds = ", ".join(f"{kind} {starts[kind]:.1f}" for kind in starts)
    reached, former = (speeds["named recipe", f"4 x 1 core{more}"] for more in ("", ", before"))
    remarks = [
        "simulated: nodes, time, seconds of stages (what the plan expects, for a Xeon) and results (drawn from what a "
        f"search believes before any; medians of seeds {SEEDS})",
        "the product's own: search loop, rule, sampler, graph of stages",
        f"{CARDS} cards of the catalogue with the fewest multiply-accumulates, {IMAGES} images, recipes head and "
        "finetune_cached, forms float32 and int8",
        "named recipe: everything that may be picked is evaluated; default: the rule chooses each step by the results "
        "so far, and ends the search",
        f"named recipe on four nodes: {reached} times as fast as on one (to reach: {REACH}); before (one training at a "
        f"time, one call for each node): {former}",
        f"measured here: {call_s:.2f} s for an empty call through the executor (median of {CALLS}), and CPU seconds of "
        f"the start of a child process: {seconds}",
        "2 x 2 cores without a loss are as 4 x 1: a job takes one core; with a node of two, two calls are lost",
        f"one dies: half-way, is noticed after {NOTICED_S:.0f} s and replaced after {QUEUE_S:.0f} s more; one slow: a "
        "quarter of the speed",
        "done twice: CPU time of calls that were lost, over all; no stage is computed twice without a loss",
        "left out: the search's own decisions, disturbed timings, networks between machines",
    ]
    header = ("search", "nodes", "hours", "speed-up", "of linear", "trained", "CPU h", "done twice", "pick as on one")
    return keep("clusters", "Searches on clusters", header, rows, remarks)


def _measured(folder: Path) -> tuple[float, dict[str, float]]:
    """Return the seconds of an empty call through the executor, and the CPU seconds of starting a child by kind."""
    starts = {}
    for kind, function in STARTS.items():
        pool, pause = kind.open(folder / "log"), Pause()
        pool.call(function, *([()] if kind != PoolKind.TRAINERS else []), pause=pause)
        starts[kind] = pause.cpu_s
        pool.close()
    executor, took = SlurmExecutor(_settings(folder), 1), []
    for _ in range(1 + CALLS):
        began = time.monotonic()
        executor.pools[PoolKind.LIGHT].call("builtins:len", ())
        took.append(time.monotonic() - began)
    executor.close()
    return statistics.median(took[1:]), starts


def _settings(folder: Path) -> dict[str, Any]:
    file = folder / "local.yaml"
    file.write_text("cluster: local\njobs: {timeout_min: 600}\n")
    return read_settings(str(file))


class _Counted(CallFolder):
    """Counts the calls of one search by function, and the bytes that go to jobs and come back."""

    calls, sent, returned = Counter[str](), 0, 0

    def put_call(self, queue: str, name: str, call: Call) -> None:
        _Counted.calls[call.function] += 1
        _Counted.sent += len(pickle.dumps(call))
        super().put_call(queue, name, call)

    def take_answer(self, name: str) -> CallAnswer | None:
        found = super().take_answer(name)
        _Counted.returned += len(pickle.dumps(found)) if found else 0
        return found


CPU_GROUPS = Path("/sys/fs/cgroup/cpu")
"""Groups of processes with a quota of CPU time (version 1 of the kernel's control groups)."""


@contextlib.contextmanager
def _quotas(share: float | None) -> Iterator[None]:
    """Give each job that starts meanwhile so many cores, together with the processes that it starts."""
    if share is None:
        yield
        return
    ended, groups, moved = threading.Event(), dict[int, Path](), set[int]()

    def watch() -> None:
        while not ended.wait(0.05):
            for job in psutil.Process().children():
                with contextlib.suppress(psutil.Error, ProcessLookupError):
                    if job.pid not in groups and any("submitit" in word for word in job.cmdline()):
                        group = CPU_GROUPS / f"advisor-{job.pid}"
                        group.mkdir()
                        period = int((group / "cpu.cfs_period_us").read_text())
                        (group / "cpu.cfs_quota_us").write_text(str(round(share * period)))
                        groups[job.pid] = group
                    if job.pid in groups:
                        for one in {job.pid, *(each.pid for each in job.children(recursive=True))} - moved:
                            (groups[job.pid] / "cgroup.procs").write_text(str(one))
                            moved.add(one)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        until = time.monotonic() + 10.0
        while any(map(Path.exists, groups.values())) and time.monotonic() < until:  # its processes are about to end
            for group in groups.values():
                with contextlib.suppress(OSError):
                    group.rmdir()
            time.sleep(0.2)


def _search_for_real(folder: Path, cards: int, tried: Sequence[int], share: float | None) -> None:
    """Search with few small cards here and by jobs, and keep a table of the answers and of what is sent."""
    photos = folder / "photos"
    for group in sorted(each for each in TRASHNET.iterdir() if each.is_dir()):
        (photos / group.name).mkdir(parents=True)
        for file in random.Random(0).sample(sorted(group.glob("*.jpg")), 12):
            (photos / group.name / file.name).write_bytes(file.read_bytes())
    (folder / "small.yaml").write_text(yaml.safe_dump(_small_cards(cards)))
    _settings(folder)
    patch.object(slurm, "CallFolder", _Counted).start()
    own, rows, seconds = _searched(folder, photos, 0), list[Row](), list[float]()
    for jobs in tried:
        _Counted.calls, _Counted.sent, _Counted.returned = Counter(), 0, 0
        began = time.monotonic()
        with _quotas(share):
            equal = _searched(folder, photos, jobs) == own
        seconds.append(time.monotonic() - began)
        sizes = (f"{_Counted.sent / 1e3:.0f}", f"{_Counted.returned / 1e3:.0f}")
        times = (f"{seconds[-1]:.0f}", f"{seconds[0] / seconds[-1]:.2f}") if share else ("", "")
        rows.append((jobs, cards, len(own), "yes" if equal else "NO", _Counted.calls.total(), *sizes, *times))
        print(*rows[-1], sep=" | ", flush=True)
    header = (
        "jobs", "cards", "configurations", "files and accuracies as here", "calls", "kB sent", "kB returned",
        "seconds", f"faster than {tried[0]}",
    )  # fmt: skip
    remarks = [
        "real processes on this machine (submitit's local kind)",
        f"seconds: each job has a quota of {share:g} cores, so that {tried[-1]} of them fit on this machine. Trainings "
        f"are short here: each job starts TensorFlow twice (14 CPU s, {14 / share:.0f} s by the clock), and the files "
        "are timed one after the other, with any number of jobs"
        if share
        else "beside other work, so no times",
        "head and finetune_cached of one small network at several input sizes, 72 photographs of TrashNet, forms "
        "float32 and int8, seed 0, an empty cache each time",
        "as here: hashes of the files and accuracies of every configuration equal those of --executor local",
        "sent: calls, mostly lists of paths; files stay in the shared cache",
    ]
    print(keep("clusters_real", "Searches by jobs of a batch system", header, rows, remarks))


def _small_cards(count: int) -> dict[str, Any]:
    """Return a catalogue: one small network at several input sizes, with the weights that are here."""
    model = next(card for card in yaml.safe_load(_V1.read_text())["cards"] if card["name"] == "mobilenet_v1_0.25_224")
    weights = [each for each in model["weights"] if each["kind"] == "npm"]
    cards = [
        {
            **{key: model[key] for key in ("arguments", "classes", "label_offset", "params")},
            "name": f"small_{side}", "input_size": side, "macs": int(model["macs"] * (side / 224) ** 2),
            "published": [{"precision": "float32", "top1": 30.0 + side / 10, "source": "made up for a benchmark"}],
            "weights": weights,
        }
        for side in range(32, 32 + 4 * count, 4)
    ]  # fmt: skip
    means = {"mean": [127.5] * 3, "std": [127.5] * 3}
    defaults = {"architecture": "mobilenet_v1", "preprocessing": means}
    return {"family": "small", "paper": "https://arxiv.org/abs/1704.04861", "licence": "Apache-2.0",
            "defaults": defaults, "cards": cards}  # fmt: skip


_V1 = Path(__file__).resolve().parents[1] / "catalogs" / "mobilenet_v1.yaml"


def _searched(folder: Path, photos: Path, jobs: int) -> tuple[object, ...]:
    """Search with an empty cache of results; return what must not depend on where the work is done."""
    cache = folder / f"cache-{jobs}"
    cache.mkdir()
    weights, before = cache_root() / "weights", os.environ.get("ADVISOR_CACHE_DIR")
    (cache / "weights").symlink_to(weights)
    os.environ["ADVISOR_CACHE_DIR"] = str(cache)
    executor = f"slurm://{folder / 'local.yaml'}" if jobs else "local"
    try:
        run = search(
            budget="50ms", data=str(photos), catalog=[str(folder / "small.yaml")], candidates="small", threads=[1],
            training=[TrainingName.HEAD, TrainingName.FINETUNE_CACHED], compressions=["float32", "int8"],
            executor=executor,
            workers=jobs or None, out=str(folder / f"runs-{jobs}"),
        )  # fmt: skip
    finally:
        os.environ.pop("ADVISOR_CACHE_DIR")
        if before is not None:
            os.environ["ADVISOR_CACHE_DIR"] = before
    found = RunFolder(run.path).evaluations()
    return tuple(sorted((e.configuration.key, e.artefact_sha256, e.accuracy and e.accuracy.value) for e in found))


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next event, so that sleeping takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Return the seconds of the simulation."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


@dataclass
class Node:
    """One core that takes a call at a time."""

    speed: float = 1.0
    dies_s: float = float("inf")
    started: set[str] = field(default_factory=set)


class Nodes:
    """The nodes of a cluster; runs the stages of variants, each once."""

    def __init__(self, plan: Plan, nodes: Sequence[Node], machine: Machine, call_s: float, starts: dict[str, float]):
        self._plan, self._machine, self._call_s, self._starts = plan, machine, call_s, starts
        self._free = asyncio.Queue[Node]()
        for node in nodes:
            self._free.put_nowait(node)
        self._tasks = dict[Stage[Any], asyncio.Task[None]]()
        self.worked_s = self.lost_s = 0.0

    async def run(self, stage: Stage[Any]) -> None:
        """Run a stage after those that it needs, once."""
        if stage not in self._tasks:
            self._tasks[stage] = asyncio.ensure_future(self._run(stage))
        await asyncio.shield(self._tasks[stage])

    async def _run(self, stage: Stage[Any]) -> None:
        await asyncio.gather(*map(self.run, stage.after))
        seconds = self._plan.costs.seconds(stage)
        if stage.resources.alone:
            async with self._machine.alone():
                await asyncio.sleep(seconds)
        elif stage.resources.long:
            async with self._machine.trainer(Pause()):
                await self._call(str(stage.resources.pool), seconds)
        else:
            async with self._machine.core():
                await self._call(str(stage.resources.pool), seconds)

    async def _call(self, kind: str, seconds: float) -> None:
        while True:
            node, now = await self._free.get(), asyncio.get_running_loop().time()
            start_s = 0.0 if kind in node.started else self._starts[kind]
            took_s = self._call_s + (start_s + seconds) / node.speed
            if now + took_s < node.dies_s:
                await asyncio.sleep(took_s)
                node.started.add(kind)
                self._free.put_nowait(node)
                self.worked_s += start_s + seconds
                return
            await asyncio.sleep(max(0.0, node.dies_s - now))
            self.lost_s += max(0.0, node.dies_s - now) * node.speed
            await asyncio.sleep(NOTICED_S)
            asyncio.get_running_loop().call_later(QUEUE_S, self._free.put_nowait, Node())


class MadeUp:
    """Evaluates configurations on nodes: their work takes time, and their results are drawn beforehand."""

    def __init__(self, plan: Plan, nodes: Nodes, seed: int) -> None:
        import numpy as np

        belief = AccuracyBelief.before(plan)
        drawn = np.random.default_rng(seed).multivariate_normal(belief.mean, belief.covariance)
        self.accuracy = {
            net: max(20.0, 100.0 - float(np.exp(value))) for net, value in zip(belief.networks, drawn, strict=True)
        }
        self._plan, self._nodes, self.trained, self.best = plan, nodes, set[str](), (0.0, "")

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        """Return the result of a configuration after its stages."""
        card, workload = self._plan.cards_by_name[configuration.card], self._plan.workload
        stages = VariantStages(card, configuration.training, configuration.compression, workload)
        await asyncio.gather(*map(self._nodes.run, stages.evaluation))
        network = CardTraining.of(configuration)
        self.trained |= {network.card} if network.tuned else set()
        drop = 0.0 if configuration.compression == "float32" else 0.5
        made = evaluation(drop=drop, latency=rough_ms(card, configuration.compression, configuration.target.threads))
        accuracy = Quantity(self.accuracy[network] - drop, "%", Provenance.MEASURED, n=VALIDATION)
        self.best = max(self.best, (accuracy.value, configuration.key))
        size = Quantity(rough_size(card, configuration.compression), "bytes", Provenance.MEASURED)
        return replace(made, configuration=configuration, accuracy=accuracy, size=size)

    def on_worst_device(self, made: Evaluation) -> Evaluation:
        """Return the result of the only device."""
        return made


class _Quiet:
    def say(self, text: str) -> None: ...
    def evaluated(self, made: Evaluation) -> None: ...
    def deferred(self, configurations: Collection[Configuration]) -> None: ...


@dataclass(frozen=True)
class Simulated:
    """One simulated search."""

    seconds: float
    worked_s: float
    lost_s: float
    trained: int
    pick: str


def _table(folder: Path, everything: bool, call_s: float, starts: dict[str, float]) -> list[Row]:
    name = "named recipe" if everything else "default"
    one = [_simulated(folder, seed, [Node()], everything, call_s, starts) for seed in SEEDS]

    def row(label: str, count: int, found: Sequence[Simulated]) -> Row:
        faster = statistics.median(a.seconds / b.seconds for a, b in zip(one, found, strict=True))
        equal = sum(a.pick == b.pick for a, b in zip(one, found, strict=True))
        middle = statistics.median
        return (
            name, label, f"{middle(each.seconds for each in found) / 3600:.2f}", f"{faster:.2f}",
            f"{100 * faster / count:.0f} %", f"{middle(each.trained for each in found):.0f}",
            f"{middle(each.worked_s for each in found) / 3600:.2f}",
            f"{100 * middle(each.lost_s / each.worked_s for each in found):.1f} %", f"equal {equal} of {len(found)}",
        )  # fmt: skip

    def on(label: str, count: int, former: bool = False, dies: int = 0, slow: bool = False) -> Row:
        found = []
        for seed, alone in zip(SEEDS, one, strict=True):
            nodes = [Node() for _ in range(count)]
            if slow:
                nodes[0].speed = 0.25
            for node in nodes[:dies]:
                node.dies_s = alone.seconds / count / 2
            found.append(_simulated(folder, seed, nodes, everything, call_s, starts, former))
        return row(label, count, found)

    rows = [row("1 x 1 core", 1, one), on("2 x 1 core", 2), on("4 x 1 core", 4)]
    if not everything:
        return rows
    return [
        *rows, on("4 x 1 core, before", 4, former=True), on("4 x 1 core, one dies", 4, dies=1),
        on("2 x 2 cores, one dies", 4, dies=2), on("4 x 1 core, one slow", 4, slow=True),
    ]  # fmt: skip


def _simulated(
    folder: Path, seed: int, nodes: Sequence[Node], everything: bool, call_s: float, starts: dict[str, float],
    former: bool = False,
) -> Simulated:  # fmt: skip
    catalogue = Catalogue.load()
    cards = heapq.nsmallest(CARDS, catalogue.values(), key=lambda card: card.macs)
    plan = planned(
        cards, ("float32", "int8"), (1,), (TrainingName.HEAD, TrainingName.FINETUNE_CACHED), RUNTIME,
        images=IMAGES, validation=VALIDATION, cores=len(nodes),
    )  # fmt: skip
    request = resolve(
        {"budget": "50ms", "stop_below": "never"} if everything else {"budget": "50ms", "stop_below": "2%"}
    )
    jobs = len(nodes) * (1 if former else slurm.AHEAD)
    machine = Machine(jobs, separate_measurements=True)
    run = RunFolder.create(folder / "simulated", f"{time.monotonic_ns()}")

    async def searched() -> Simulated:
        cluster = Nodes(plan, nodes, machine, call_s, starts)
        made_up = MadeUp(plan, cluster, seed)
        study = Study(InMemoryStorage(), "s", plan, request.question.limits, "advisor", seed=seed, done=())
        loop = SearchLoop(request, run, _Quiet(), 0.0, jobs, trainings=1 if former else machine.trainings)
        await loop.evaluate_all(study, made_up, plan, 0)  # type: ignore[arg-type]
        seconds = asyncio.get_running_loop().time()
        trained = len(made_up.trained)
        return Simulated(seconds, cluster.worked_s, cluster.lost_s, trained, made_up.best[1])

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(searched())


if __name__ == "__main__":
    main()
