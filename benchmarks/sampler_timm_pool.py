"""How many evaluations each way of searching needs on 337 published ImageNet classifiers.

    python benchmarks/sampler_timm_pool.py [POOL.csv] [--seeds 20] [--output benchmarks/results]

The pool gives each model's family, parameters, CPU latency, ImageNet top-1 and its top-1 on three other test sets. The
search knows all but the last: it sees a model's top-1 on a test set only by evaluating the model. The benchmark counts
the models evaluated until 90 % and 95 % of the whole pool's hypervolume over (log latency, top-1) are reached, from the
reference point (largest latency, smallest top-1). A repeated model costs nothing. A second part makes the prior worse:
it adds noise to ImageNet top-1 until the rank correlation with the test set falls to a given value.
"""

import argparse
import csv
import importlib.util
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from advisor.engine._scheduling.sampler import AdvisorSampler, Candidate, Objective
from advisor.engine._scheduling.sampler.hypervolume import Floats, hypervolume, prior_order

TASKS = ("imagenet_v2", "sketch", "imagenet_r")
CORRELATIONS = (0.94, 0.8, 0.6, 0.4)
SHARES = (0.9, 0.95)
OBJECTIVES = (Objective("latency", "minimize", log=True), Objective("accuracy", "maximize"))
COLD_TRIALS = 600
DEFAULT_POOL = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "search" / "timm_pool.csv"


@dataclass(frozen=True)
class Pool:
    """The models: names, families and training tags (from the published name), and (n,) figures; accuracy by task."""

    names: tuple[str, ...]
    families: tuple[str, ...]
    trainings: tuple[str, ...]
    log_params: Floats
    latency_ms: Floats
    prior: Floats
    accuracy: dict[str, Floats]


@dataclass(frozen=True)
class Result:
    """Evaluations to each of ``SHARES`` by seed; infinite where the method gave up before."""

    task: str
    prior: str
    correlation: float
    method: str
    evaluations: tuple[tuple[float, ...], ...]

    def median(self, share: int) -> float:
        return statistics.median(run[share] for run in self.evaluations)

    def quartiles(self, share: int) -> tuple[float, float]:
        ordered = sorted(run[share] for run in self.evaluations)
        return ordered[(len(ordered) - 1) // 4], ordered[(3 * (len(ordered) - 1) + 3) // 4]


Search = Callable[[Pool, Floats, Floats, int], Iterator[int]]
"""(pool, prior, accuracy that evaluating reveals, seed) -> rows in the order in which they are evaluated."""


def read_pool(path: Path) -> Pool:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name not in ("model", "family")}
    return Pool(
        names=tuple(row["model"] for row in rows),
        families=tuple(row["family"] for row in rows),
        trainings=tuple(row["model"].partition(".")[2] for row in rows),
        log_params=np.log(column["params_millions"]),
        latency_ms=column["cpu_latency_ms"],
        prior=column["imagenet_top1"],
        accuracy={task: column[f"{task}_top1"] for task in TASKS},
    )


def rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's, ties in row order."""
    table = np.empty((2, len(first)))
    for row, values in enumerate((first, second)):
        table[row, np.argsort(values, kind="stable")] = np.arange(len(values))
    matrix: Floats = np.cov(table)
    return float(matrix[0, 1] / matrix[0, 0])


def degrade(prior: Floats, accuracy: Floats, correlation: float, seed: int) -> Floats:
    """Add normal noise to the prior until its rank correlation with the accuracy has fallen to ``correlation``."""
    noise = np.random.default_rng(seed).normal(size=len(prior)) * prior.std()
    low, high = 0.0, 50.0
    for _ in range(50):
        middle = (low + high) / 2
        above = rank_correlation(prior + middle * noise, accuracy) > correlation
        low, high = (middle, high) if above else (low, middle)
    degraded: Floats = prior + high * noise
    return degraded


def random_order(pool: Pool, _prior: Floats, _accuracy: Floats, seed: int) -> Iterator[int]:
    yield from (int(row) for row in np.random.default_rng(seed).permutation(len(pool.names)))


def by_prior(pool: Pool, prior: Floats, _accuracy: Floats, seed: int) -> Iterator[int]:
    shuffled = np.random.default_rng(seed).permutation(len(prior))
    points = np.column_stack([np.log(pool.latency_ms), -prior])[shuffled]
    yield from (int(shuffled[place]) for place in prior_order(points))


def advised(training_tag: bool) -> Search:
    def search(pool: Pool, prior: Floats, accuracy: Floats, seed: int) -> Iterator[int]:
        sampler = AdvisorSampler(candidates(pool, prior, training_tag), OBJECTIVES, seed=seed)
        return _evaluated(pool, accuracy, sampler, len(pool.names), warm=[])

    return search


def candidates(pool: Pool, prior: Floats, training_tag: bool) -> list[Candidate]:
    tags = [{"training": tag} if training_tag else {} for tag in pool.trainings]
    return [
        Candidate(
            params={"model": name},
            prior=float(prior[row]),
            known={"latency": float(pool.latency_ms[row])},
            features={"family": pool.families[row], "log_params": float(pool.log_params[row]), **tags[row]},
        )
        for row, name in enumerate(pool.names)
    ]


def cold(make: Callable[[int], BaseSampler], warm: int = 0) -> Search:
    """A sampler of Optuna's over one categorical parameter; ``warm`` enqueues that many models in prior order first."""

    def search(pool: Pool, prior: Floats, accuracy: Floats, seed: int) -> Iterator[int]:
        order = by_prior(pool, prior, accuracy, seed)
        return _evaluated(pool, accuracy, make(seed), COLD_TRIALS, warm=[next(order) for _ in range(warm)])

    return search


def _evaluated(pool: Pool, accuracy: Floats, sampler: BaseSampler, trials: int, warm: Sequence[int]) -> Iterator[int]:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    for row in warm:
        study.enqueue_trial({"model": pool.names[row]})
    space = {"model": CategoricalDistribution(pool.names)}
    rows = {name: row for row, name in enumerate(pool.names)}
    # Optuna's samplers are given the scale of the hypervolume; the advisor's takes the logarithm itself.
    latency = pool.latency_ms if isinstance(sampler, AdvisorSampler) else np.log(pool.latency_ms)
    for _ in range(trials):
        trial = study.ask(dict(space))
        row = rows[trial.params["model"]]
        study.tell(trial, (float(latency[row]), float(accuracy[row])))
        yield row


def evaluations_needed(order: Iterator[int], pool: Pool, accuracy: Floats) -> tuple[float, ...]:
    points = np.column_stack([np.log(pool.latency_ms), -accuracy])
    reference = points.max(axis=0)
    whole = hypervolume(points, reference)
    seen: dict[int, None] = {}
    needed = [float("inf")] * len(SHARES)
    for row in order:
        seen[row] = None
        share = hypervolume(points[list(seen)], reference) / whole
        for i, target in enumerate(SHARES):
            if needed[i] == float("inf") and share >= target - 1e-12:
                needed[i] = len(seen)
        if needed[-1] < float("inf"):
            break
    return tuple(needed)


def cold_methods() -> dict[str, Search | str]:
    """Optuna's own samplers, or why one is left out."""
    methods: dict[str, Search | str] = {
        "Optuna TPE (10 start-up trials)": cold(lambda seed: TPESampler(seed=seed)),
        "Optuna TPE, first 10 by prior": cold(lambda seed: TPESampler(seed=seed, n_startup_trials=0), warm=10),
        "Optuna NSGA-II (population 20)": cold(lambda seed: NSGAIISampler(seed=seed, population_size=20)),
    }
    missing = [name for name in ("torch", "scipy") if importlib.util.find_spec(name) is None]
    methods["Optuna GP"] = (
        f"needs {', '.join(missing)}, not installed" if missing else cold(lambda seed: GPSampler(seed=seed))
    )
    return methods


def run_natural(
    pool: Pool, seeds: int, cold_seeds: int, kept: Sequence[Result] = ()
) -> tuple[list[Result], dict[str, str]]:
    """Every method with the published top-1 as the prior; ``kept`` rows stand for methods of no seeds."""
    methods: dict[str, Search | str] = {"random": random_order, **cold_methods()}
    methods |= {"prior order alone": by_prior, "advisor": advised(training_tag=True)}
    methods["advisor, training data unknown"] = advised(training_tag=False)
    results, skipped = [], {}
    for task in TASKS:
        for name, search in methods.items():
            if isinstance(search, str):
                skipped[name] = search
                continue
            count = cold_seeds if name.startswith("Optuna") else seeds
            if count == 0:
                results += [row for row in kept if (row.task, row.method) == (task, name)]
                continue
            results.append(_run(pool, task, "published", pool.prior, name, search, range(count)))
    return results, skipped


def run_degraded(pool: Pool, seeds: int) -> list[Result]:
    """Random, prior order and the advisor with a prior that was made worse, by a different noise for each seed."""
    methods: dict[str, Search] = {"random": random_order, "prior order alone": by_prior}
    methods |= {"advisor": advised(training_tag=True), "advisor, training data unknown": advised(training_tag=False)}
    results = []
    for task in TASKS:
        natural = rank_correlation(pool.prior, pool.accuracy[task])
        for correlation in (value for value in CORRELATIONS if value < natural):
            for name, search in methods.items():
                results.append(_run(pool, task, f"degraded to {correlation}", correlation, name, search, range(seeds)))
    return results


def _run(pool: Pool, task: str, label: str, prior: Floats | float, method: str, search: Search, seeds: range) -> Result:
    accuracy = pool.accuracy[task]
    runs = []
    for seed in seeds:
        belief = degrade(pool.prior, accuracy, prior, seed) if isinstance(prior, float) else prior
        runs.append(evaluations_needed(search(pool, belief, accuracy, seed), pool, accuracy))
    belief = degrade(pool.prior, accuracy, prior, 0) if isinstance(prior, float) else prior
    result = Result(task, label, rank_correlation(belief, accuracy), method, tuple(runs))
    print(f"{task:12} {label:16} {method:32} {_number(result.median(0)):>6} {_number(result.median(1)):>6}", flush=True)
    return result


@dataclass(frozen=True)
class Overhead:
    """Milliseconds of one ``Study.ask`` with ``finished`` trials behind it and ``candidates`` in the table.

    The processor time is what the machine's other work does not disturb.
    """

    objectives: int
    candidates: int
    finished: int
    processor_ms: float
    median_ms: float
    worst_ms: float

    def times_ms(self) -> tuple[float, float, float]:
        return self.processor_ms, self.median_ms, self.worst_ms


def measure_overhead(objectives: int, count: int, finished: int, asks: int = 50) -> Overhead:
    """Ask and tell after ``finished`` trials in a table of ``count`` (at most 20,000) made-up candidates."""
    rng = np.random.default_rng(0)
    table = [_made_up(rng, row, objectives) for row in range(count)]
    accuracy = [each.prior + rng.normal(0, 3) for each in table]
    names = [Objective(name, log=True) for name in list(table[0].known)]
    study = optuna.create_study(
        directions=[*[StudyDirection.MINIMIZE] * len(names), StudyDirection.MAXIMIZE],
        sampler=(sampler := AdvisorSampler(table, [*names, Objective("accuracy", "maximize")])),
    )
    space = sampler.distributions
    rows = {tuple(each.params.items()): row for row, each in enumerate(table)}
    for row in rng.permutation(count)[:finished]:
        each = table[int(row)]
        values = [*each.known.values(), accuracy[int(row)]]
        params = dict(each.params)
        study.add_trial(
            create_trial(state=TrialState.COMPLETE, params=params, distributions=dict(space), values=values)
        )
    sampler.remaining(study)
    durations, processor = [], []
    for _ in range(asks):
        start, busy = time.perf_counter(), time.process_time()
        trial = study.ask(dict(space))
        processor.append((time.process_time() - busy) * 1e3)
        durations.append((time.perf_counter() - start) * 1e3)
        row = rows[tuple(trial.params.items())]
        study.tell(trial, [*table[row].known.values(), accuracy[row]])
    middle = statistics.median(processor), statistics.median(durations)
    return Overhead(objectives, count, finished, *middle, max(durations))


def _made_up(rng: np.random.Generator, row: int, objectives: int) -> Candidate:
    card = row % 200
    log_latency = float(rng.uniform(0, 6))
    known = {"latency": float(np.exp(log_latency)), "size": float(np.exp(rng.uniform(0, 4)))}
    return Candidate(
        params={"card": f"c{card}", "recipe": f"r{row // 200 % 25}", "threads": 1 + row // 5000},
        prior=60 + 3 * log_latency + float(rng.normal(0, 3)),
        known={name: known[name] for name in list(known)[: objectives - 1]},
        features={"card": f"c{card}", "family": f"f{card % 30}", "log_params": float(rng.normal())},
        cost_s=float(rng.uniform(5, 50)),
    )


def write_csv(path: Path, results: Sequence[Result]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "prior", "rank_correlation", "method", "seed", "evaluations_90", "evaluations_95"])
        for result in results:
            for seed, run in enumerate(result.evaluations):
                found = [_number(value) for value in run]
                writer.writerow([result.task, result.prior, f"{result.correlation:.3f}", result.method, seed, *found])


def read_csv(path: Path) -> list[Result]:
    """Return the results of an earlier run."""
    found: dict[tuple[str, str, float, str], list[tuple[float, ...]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["task"], row["prior"], float(row["rank_correlation"]), row["method"]
            figures = (row["evaluations_90"], row["evaluations_95"])
            found.setdefault(key, []).append(tuple(math.inf if each == "-" else float(each) for each in figures))
    return [Result(*key, tuple(runs)) for key, runs in found.items()]


def markdown(
    natural: Sequence[Result], degraded: Sequence[Result], skipped: dict[str, str], overheads: Sequence[Overhead]
) -> str:
    lines = ["# The sampler on 337 published classifiers", "", machine(), ""]
    lines += [
        "Median evaluations to 90 % / 95 % of the hypervolume of the whole pool, quartiles of the latter in brackets.",
        "",
    ]
    lines += [*_table(natural, "published"), ""]
    lines += [f"- {name}: left out, {reason}." for name, reason in skipped.items()]
    lines += [f"- `-`: not reached in {COLD_TRIALS} trials. Asking twice for a model is not counted.", ""]
    lines += ["## With the prior made worse", ""]
    for label in dict.fromkeys(result.prior for result in degraded):
        lines += [
            f"### {label[0].upper()}{label[1:]}",
            "",
            *_table([r for r in degraded if r.prior == label], label),
            "",
        ]
    lines += [
        "## Time of a suggestion",
        "",
        "| objectives | candidates | finished trials | median processor ms | median ms | worst ms |",
    ]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    lines += [
        f"| {o.objectives} | {o.candidates} | {o.finished} | {' | '.join(f'{ms:.1f}' for ms in o.times_ms())} |"
        for o in overheads
    ]
    return "\n".join(lines) + "\n"


def _table(results: Sequence[Result], label: str) -> list[str]:
    tasks = [task for task in TASKS if any(result.task == task for result in results)]
    heads = [f"{t} (rho {next(r.correlation for r in results if r.task == t):.2f})" for t in tasks]
    lines = [f"| {label} prior | {' | '.join(heads)} | seeds |", f"| --- |{' --- |' * (len(tasks) + 1)}"]
    for method in dict.fromkeys(result.method for result in results):
        found = {result.task: result for result in results if result.method == method}
        cells = [_cell(found[task]) for task in tasks]
        lines.append(f"| {method} | {' | '.join(cells)} | {len(found[tasks[0]].evaluations)} |")
    return lines


def _cell(result: Result) -> str:
    low, high = result.quartiles(1)
    return f"{_number(result.median(0))} / **{_number(result.median(1))}** ({_number(low)}-{_number(high)})"


def _number(value: float) -> str:
    return "-" if value == float("inf") else f"{value:g}"


def machine() -> str:
    """Name the processor, its cores and the versions that the figures depend on."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, Optuna {optuna.__version__}"
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}; {versions}; load {os.getloadavg()[0]:.1f}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pool", nargs="?", type=Path, default=DEFAULT_POOL)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--cold-seeds",
        type=int,
        default=20,
        help="seeds for Optuna's own samplers, which are slow; 0 to keep their rows",
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "results")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pool = read_pool(arguments.pool)
    overheads = [
        measure_overhead(d, n, done) for d in (2, 3) for n, done in ((400, 100), (10_100, 10_000), (20_000, 10_000))
    ]
    kept = read_csv(arguments.output / "sampler_timm_pool.csv") if arguments.cold_seeds == 0 else []
    natural, skipped = run_natural(pool, arguments.seeds, arguments.cold_seeds, kept)
    degraded = run_degraded(pool, arguments.seeds)
    arguments.output.mkdir(parents=True, exist_ok=True)
    write_csv(arguments.output / "sampler_timm_pool.csv", [*natural, *degraded])
    text = markdown(natural, degraded, skipped, overheads)
    (arguments.output / "sampler_timm_pool.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
