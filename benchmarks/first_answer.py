"""How soon a default search on TrashNet has an answer, and when it has the final one.

    python -m benchmarks first_answer

The cache of results is empty, the weights are there. The answer so far is decided again from the evaluations that the
run had at each time.
"""

import json
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from advisor.core import Evaluation, Quantity
from advisor.engine import LoadedRun
from advisor.engine._decide import decide_run
from benchmarks.accuracy_search import TRASHNET, Case, Searched, search
from benchmarks.cost_plot import plot
from benchmarks.tables import RESULTS, Row, keep

NAME = "first_answer"
EVERY_S = 0.5
STEPS = 500
"""Steps of the seconds at which the plot shows the accuracy of the answer so far."""

HEADER = ("figure", "goal", "measured")
REMARKS = (
    "Default search on TrashNet, seed 0, no time limit. Seconds by the clock, from the start of the command.",
    "A network of the pick: card and training recipe. CPU minutes: user and system time with all child processes.",
)

FIGURES: dict[str, Callable[[Evaluation], Quantity | None]] = {
    "hold-out": lambda pick: pick.holdout_accuracy,
    "validation": lambda pick: pick.accuracy,
}
"""The curves of the plot."""


@dataclass
class Watch:
    """Notes when each line of a file was there.

    Attributes:
        file: the file.
        seen: seconds since the start, and the number of lines, at each change.
    """

    file: Path
    seen: list[tuple[float, int]] = field(default_factory=list)

    def follow(self, stopped: threading.Event) -> None:
        """Watch until the event is set."""
        began = time.monotonic()
        while not stopped.wait(EVERY_S):
            count = self.file.read_bytes().count(b"\n") if self.file.is_file() else 0
            if count > (self.seen[-1][1] if self.seen else 0):
                self.seen.append((time.monotonic() - began, count))


@dataclass(frozen=True)
class AnswerSoFar:
    """The pick at a time of a search: seconds since the start, None where there is no pick."""

    seconds: float
    pick: Evaluation | None


def main() -> None:
    """Search once and keep the table."""
    with tempfile.TemporaryDirectory() as name:
        found, seen = watched_search(Case("trashnet", TRASHNET, ("--seed", "0")), Path(name))
        course = list(answers(found.run, seen))
        rows = table(course, found.cpu_s, found.wall_s)
        stages = json.loads((found.run / "manifest.json").read_text(encoding="utf-8"))["durations"]
    title = "Default search on TrashNet, seed 0: accuracy of the answer so far"
    curves = {name: [curve(course, figure, found.wall_s)] for name, figure in FIGURES.items()}
    svg = plot(curves, found.wall_s, {}, title, "top-1 of the pick; no line before the pick has the figure")
    (RESULTS / f"{NAME}.svg").write_text(svg, encoding="utf-8")
    listed = ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in stages.items())
    print(keep(NAME, "Seconds until an answer", HEADER, rows, (*REMARKS, f"Seconds by stage: {listed}.")))


def watched_search(case: Case, place: Path) -> tuple[Searched, list[tuple[float, int]]]:
    """Search, and return with the result when each line of the evaluations was there."""
    watch, stopped = Watch(place / "runs" / "latest" / "evaluations.jsonl"), threading.Event()
    follower = threading.Thread(target=watch.follow, args=(stopped,))
    follower.start()
    try:
        return search(case, place), watch.seen
    finally:
        stopped.set()
        follower.join()


def answers(run: Path, seen: Sequence[tuple[float, int]]) -> Iterator[AnswerSoFar]:
    """Yield the pick of the evaluations that a run had at each time."""
    lines = (run / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()
    loaded = LoadedRun.load(run)
    for seconds, count in seen:
        rows = [Evaluation.from_json(json.loads(line)) for line in lines[:count]]
        known = list({row.configuration: row for row in rows}.values())
        yield AnswerSoFar(seconds, decide_run(loaded.folder, known, loaded.question).decision.pick)


def curve(
    answers: Sequence[AnswerSoFar], figure: Callable[[Evaluation], Quantity | None], until_s: float
) -> list[float]:
    """Return the accuracy (0-1) of the pick at equal steps of the seconds of a search, NaN where it is not known."""
    found = list[float]()
    for step in range(1, STEPS + 1):
        pick = next((each.pick for each in reversed(answers) if each.seconds <= step / STEPS * until_s), None)
        known = figure(pick) if pick is not None else None
        found.append(known.value / 100 if known is not None else math.nan)
    return found


def table(answers: Sequence[AnswerSoFar], cpu_s: float, wall_s: float) -> list[Row]:
    """Return the rows: minutes of CPU, and seconds until each kind of answer."""
    final = answers[-1].pick
    picks = [each for each in answers if each.pick is not None]
    judged = [each for each in picks if each.pick and each.pick.holdout_accuracy is not None]
    return [
        ("CPU minutes", "8", f"{cpu_s / 60:.1f}"),
        ("seconds until a file that could ship", "60", _first(picks)),
        ("seconds until the pick has a hold-out figure", "60", _first(judged)),
        ("seconds until the network of the pick stays", "", _since(answers, _network)),
        ("seconds until the pick stays", "180", _since(answers, lambda pick: pick.configuration.key)),
        ("seconds until the end", "", f"{wall_s:.0f}"),
        ("the pick", "", final.describe_figures() if final else "none"),
    ]


def _first(answers: Sequence[AnswerSoFar]) -> str:
    return f"{answers[0].seconds:.0f}" if answers else "never"


def _since(answers: Sequence[AnswerSoFar], name: Callable[[Evaluation], str]) -> str:
    """Return the seconds from which on the pick has the name of the last one."""
    names = [name(each.pick) if each.pick else "" for each in answers]
    changed = max((place for place, one in enumerate(names) if one != names[-1]), default=-1)
    return f"{answers[changed + 1].seconds:.0f}"


def _network(pick: Evaluation) -> str:
    return f"{pick.configuration.card} {pick.configuration.training}"
