"""What a search costs until it has the front: every sampler replayed on the exhaustive table of TrashNet.

The product's rule and its study are asked in turn as where everything is evaluated, and answers are told as in a
search: only the evaluation is looked up (``benchmarks.cost_table``) and costs the seconds that its stages took there,
what a card's forms share once. Three problems are searched: ``head``, every card of the
table with its head; ``rungs``, the cards that were fine-tuned, from a quick head over the head to fine-tuning; and
``whole``, every card with its head, and fine-tuned where the table has it. Shown is the time until 95 % and 99 % of the
whole hypervolume over (accuracy, log latency, log size) are reached, medians over seeds, as a share of evaluating
everything.
"""

import argparse
import csv
import importlib.util
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

from benchmarks.cost_plot import plot
from benchmarks.cost_table import CORES, PROBLEMS, Problem, read
from benchmarks.hindsight import in_hindsight
from benchmarks.quick_tpe import splits_remembered
from benchmarks.replay import FORMER, GP, METHODS, searched
from benchmarks.tables import RESULTS, keep

RUNS = RESULTS / "search_cost_runs.csv"
SHARES = (0.95, 0.99)
STEPS = 100
SEEDS = 20
AIMS = (
    "former: the scheduler before decision 0095. advisor: the search that evaluates everything, in the "
    "order of the sampler, heads before fine-tuning; a default search follows the rule and ends with the pick"
)
GP_LEFT_OUT = "gp left out: it needs PyTorch (pip install 'ondevice-advisor[gp]')"
GP_LISTED = "gp: Optuna's GPSampler, its acquisition taken exactly at every configuration that may be begun"
TIMED = (
    "what fine-tuning takes was timed two cards side by side, of four of the six beside other work too, which makes it "
    "longer; of the first two cards each stage was timed for both, and divided by what the run counted for each"
)
GOALS = {0.95: 1 / 4, 0.99: 1 / 2}
"""Share of the cost of everything within which each share of the hypervolume is to be reached."""

TITLES = {
    "head": "Every card of TrashNet's table, with its head",
    "rungs": "Cards that climb: quick head, head, fine-tuning",
    "whole": "Every card with its head, and fine-tuned where the table has it",
}

OTHERS = 1 / 2
"""Share of the cost of the best other method within which each is to be reached."""


@dataclass(frozen=True)
class Run:
    """One replay in shares of the cost of everything: until each of :data:`SHARES`, and reached at each hundredth."""

    problem: str
    method: str
    seed: int
    shares: tuple[float, ...]
    curve: tuple[float, ...]


def main() -> None:
    """Replay samplers, all of them or those named, and keep the table, the runs and the plots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problem", choices=tuple(PROBLEMS), action="append")
    parser.add_argument("--method", choices=[name for name in METHODS if name != FORMER], action="append")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=CORES)
    arguments = parser.parse_args()
    methods = arguments.method or [name for name in METHODS if name != FORMER]
    if importlib.util.find_spec("torch") is None:
        methods = [name for name in methods if name != GP]
    with ProcessPoolExecutor(arguments.workers) as pool:
        for problem, method in product(arguments.problem or PROBLEMS, methods):
            count = arguments.seeds
            found = list(pool.map(replayed, [problem] * count, [method] * count, range(count)))
            _keep_runs([*(run for run in _kept_runs() if (run.problem, run.method) != (problem, method)), *found])
    print(_summary(_kept_runs()))


def replayed(problem: str, method: str, seed: int) -> Run:
    """Replay one search."""
    known = read(problem)
    with splits_remembered():
        course = known.course(searched(known, method, seed))
    everything = known.everything_s
    curve = tuple(course.at(step / STEPS * everything) for step in range(1, STEPS + 1))
    return Run(problem, method, seed, tuple(course.until(share) / everything for share in SHARES), curve)


def _keep_runs(runs: Sequence[Run]) -> None:
    with RUNS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["problem", "method", "seed", *(f"share_to_{s:.0%}" for s in SHARES), *range(1, STEPS + 1)])
        for run in sorted(runs, key=lambda run: (run.problem, METHODS.index(run.method), run.seed)):
            figures = (f"{value:.4f}" for value in (*run.shares, *run.curve))
            writer.writerow([run.problem, run.method, run.seed, *figures])


def _kept_runs() -> list[Run]:
    if not RUNS.is_file():
        return []
    with RUNS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    count = 3 + len(SHARES)
    return [
        Run(row[0], row[1], int(row[2]), tuple(map(float, row[3:count])), tuple(map(float, row[count:])))
        for row in rows
    ]


def _summary(runs: Sequence[Run]) -> str:
    rows, remarks = [], []
    for name in dict.fromkeys(run.problem for run in runs):
        problem, own = read(name), [run for run in runs if run.problem == name]
        by_method = {method: [run for run in own if run.method == method] for method in METHODS}
        by_method = {method: found for method, found in by_method.items() if found}
        rows += [_line(name, method, found, problem.everything_s) for method, found in by_method.items()]
        remarks.append(f"{name}: {_described(problem)}")
        remarks += _against_others(name, by_method)
        known = problem.course(in_hindsight(problem))
        rows.append(_in_hindsight(name, [known.until(share) / problem.everything_s for share in SHARES], problem))
        curves = {method: [run.curve for run in found] for method, found in by_method.items()}
        svg = plot(curves, problem.everything_s, GOALS, TITLES[name])
        (RESULTS / f"search_cost_{name}.svg").write_text(svg, encoding="utf-8")
    goals = "; ".join(f"{share:.0%} within {goal:.0%}" for share, goal in GOALS.items())
    remarks += [
        f"medians over seeds, the longest in brackets; to reach: {goals} of all, and half of the best other method",
        "(in hindsight): a short way for who knows every result beforehand, by gain of hypervolume a second",
        AIMS,
        TIMED,
        GP_LISTED if any(run.method == GP for run in runs) else GP_LEFT_OUT,
    ]
    seconds = (f"seconds to {share:.0%}" for share in SHARES)
    header = ("problem", "method", *seconds, *(f"of all, {share:.0%}" for share in SHARES), "seeds")
    return keep("search_cost", "What a search costs until it has the front (TrashNet)", header, rows, remarks)


def _described(problem: Problem) -> str:
    cards = {row.card for row in problem.rows.values()}
    networks = {card.partition("_at_")[0] for card in cards}
    cut = sum("_cut" in name for name in networks)
    short = f" ({cut} of them cut short)" if cut else ""
    return (
        f"{len(problem.rows)} configurations ({', '.join(problem.trainings)}): {len(networks)} networks{short}, "
        f"{len(cards)} with their inputs; all that are answers take {problem.everything_s:.0f} s"
    )


def _against_others(name: str, by_method: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """Yield a line on each share: the advisor's cost over that of the best other method."""
    others = [method for method in by_method if method not in (METHODS[0], FORMER)]
    if METHODS[0] not in by_method or not others:
        return
    for place, share in enumerate(SHARES):
        medians = {each: statistics.median(run.shares[place] for run in by_method[each]) for each in by_method}
        best = min(others, key=lambda each: medians[each])
        ratio = medians[METHODS[0]] / medians[best]
        yield f"{name}: {share:.0%} costs {ratio:.2f} of what it costs the best other ({best}); to reach {OTHERS:.2f}"


def _in_hindsight(problem: str, shares: Sequence[float], known: Problem) -> tuple[object, ...]:
    seconds = (f"{share * known.everything_s:.0f}" for share in shares)
    return (problem, "(in hindsight)", *seconds, *(f"{share:.2f}" for share in shares), "")


def _line(problem: str, method: str, runs: Sequence[Run], everything: float) -> tuple[object, ...]:
    columns = list(zip(*(run.shares for run in runs), strict=True))
    medians, worst = [statistics.median(column) for column in columns], [max(column) for column in columns]
    shown = [f"{middle:.2f} ({last:.2f})" for middle, last in zip(medians, worst, strict=True)]
    return (problem, method, *(f"{value * everything:.0f}" for value in medians), *shown, len(runs))


if __name__ == "__main__":
    main()
