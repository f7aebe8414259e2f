"""The accuracy that a time limit buys, on images that the search never saw, beside a script and beside prior order.

    python -m benchmarks anytime
    python -m benchmarks anytime --sets trashnet --draws 0 --limits 2min --methods advisor      # some cells
    python -m benchmarks anytime --methods none     # draws plots and remarks of the rows that there are
    python -m benchmarks anytime --speed 0.3,0.5,1 --cores 1,2      # as slower machines, by a quota of CPU time

``grocery``: its official test, another visit to the shops. ``trashnet``: 70 % of each class, drawn by the seed of a
draw; the other 30 % are scored. Each method begins with an empty cache of results:

``advisor``: a search within each limit.
``script``: ``benchmarks/script_keras.py``, once: plain Keras without a limit, head only and tuned.
``prior``: AutoML by prior order: the product's own stages, one card after the other by its published accuracy, the head
and then fine-tuning, until the longest limit is over. Its answer is the one with the best validation so far.

Rows are kept at once. Let the machine be idle.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.catalog import Catalogue, fetch_weights
from advisor.core import units
from advisor.tasks._task import USUAL_TRAININGS
from benchmarks.accuracy_search import GROCERY, TRASHNET, Case, labelled, scored, search, shown
from benchmarks.anytime_table import CARDS, drawn
from benchmarks.cost_plot import plot
from benchmarks.first_answer import AnswerSoFar, answers, watched_search
from benchmarks.score_file import Description
from benchmarks.speed import Speed
from benchmarks.tables import RESULTS, Row, keep, kept_of_others

NAME, TITLE = "anytime", "Accuracy within a time limit"
ADVISOR, SCRIPT, PRIOR = "advisor", "script", "prior"
NETWORK = "mobilenet_v2_1.0_224"
"""The network of the script: that of a team that takes the first one of Keras."""

LEAST_S = 30.0
"""Seconds that must be left for prior order to begin another card."""

STEPS = 500
HEADER = (
    "set, limit and method", "set", "limit", "method", "pick", "training", "recipe", "validation %", "hold-out %",
    "other images %", "int8 drop on validation", "int8 drop on other images", "CPU s", "wall s", "over the limit s",
    "until a hold-out figure s", "on cards without a result %", "on cards that were never the pick %",
)  # fmt: skip
REMARKS = (
    "Other images: the shipped file on images that took part in nothing, with LiteRT and Pillow alone: the official "
    "test of grocery, and the 30 % of TrashNet that were left out. In grocery, the official test is also the hold-out, "
    "which judges the finalists and chooses nothing.",
    "CPU seconds: user and system time of the method and its child processes. Wall: the whole process.",
    "Speed: the share of the machine's CPU time that the kernel gave (a quota); without one, all of it.",
    "Until a hold-out figure: seconds by the clock until the pick so far had one.",
    "On cards without a result, or that were never the pick so far: their share in the seconds of all stages that "
    "ended, from the run's `durations_by_card`. A stage that the limit ended is not in it.",
    "Script: MobileNetV2 in plain Keras, on all images that the search learns from, validation included.",
    "Draws 87 to 95 of TrashNet chose nothing. Script and prior order ran on draws 0 to 4.",
    "Half and .3 of the speed, one core, grocery, and draws 92 and 93 ran beside other programs, with a large weight. "
    "Draws 0 to 3 of TrashNet in 10 minutes are of the search of 2026-11-25. Four searches of grocery in 10 minutes, "
    "as the code changed, had 88.7, 85.6, 84.1 and 86.4 %.",
    f"Prior order: {len(CARDS)} cards by published accuracy, each a search of its own with one cache. Other programs "
    "took a part of the machine then, so compare its rows by CPU seconds.",
)


def main() -> None:
    """Run the chosen cells, and keep their rows, the remarks and the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="grocery,trashnet", help="of grocery and trashnet, joined by commas")
    parser.add_argument("--draws", default="0,1,2,3,4", help="seeds of the draws of TrashNet")
    parser.add_argument("--limits", default="1min,2min,5min,10min,20min", help="time limits")
    parser.add_argument("--methods", default=",".join(METHODS), help=f"of {', '.join(METHODS)}; none for none")
    parser.add_argument("--speed", default="1", help="shares of this machine's CPU time, at most 1, joined by commas")
    parser.add_argument("--cores", default="all", help="numbers of cores, or all, joined by commas")
    parser.add_argument("--name", default=NAME, help="name of the table, for example of the code before a change")
    chosen = parser.parse_args()
    methods = () if chosen.methods == "none" else chosen.methods.split(",")
    if unknown := set(methods) - set(METHODS):
        parser.error(f"--methods: '{min(unknown)}' is not one of {', '.join(METHODS)}, none")
    speeds = list(speeds_of(chosen.speed.split(","), chosen.cores.split(",")))
    with tempfile.TemporaryDirectory() as name:
        cases = list(cases_of(chosen.sets.split(","), chosen.draws.split(","), Path(name)))
        for case in (at_speed(case, speed) for case in cases for speed in speeds):
            for method, limits in parts_of_work(methods, chosen.limits.split(",")):
                try:
                    for row in METHODS[method](case, limits):
                        print(*row, sep=" | ", flush=True)
                        put(chosen.name, row)
                except SystemExit as error:  # a search failed; the other cells are still worth their time
                    print(f"{case.name}, {method}: {error}", flush=True)
    put(chosen.name)


def speeds_of(shares: Sequence[str], cores: Sequence[str]) -> Iterator[Speed]:
    """Yield the machines to run as; SystemExit for a share that no quota can give."""
    for share in map(float, shares):
        if not 0.0 < share <= 1.0:
            raise SystemExit(f"--speed: {share:g} is not above 0 and at most 1, the whole machine")
        for count in cores:
            yield Speed(share, None if count == "all" else int(count))


def at_speed(case: Case, speed: Speed) -> Case:
    """Return a case on a slower machine, which its name says."""
    name = f"{case.name}, {speed.name}" if speed.name else case.name
    return replace(case, name=name, speed=speed)


def parts_of_work(methods: Sequence[str], limits: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the methods with their limits: the product begins anew for each limit, the others serve all at once."""
    for method in methods:
        yield from [(method, [limit]) for limit in limits] if method == ADVISOR else [(method, limits)]


def put(name: str, *rows: Row) -> None:
    """Put rows into the table in place of older ones of the same cells, with its remarks and plots."""
    others, _ = kept_of_others(name, [str(row[0]) for row in rows])
    table = sorted([*others, *rows], key=lambda row: [str(cell) for cell in row])
    keep(name, TITLE, HEADER, table, (*REMARKS, *summary(table)))
    for images in sorted({set_of(row) for row in table}):
        file = f"{name}_{images.replace(', ', '_').replace(' ', '_')}.svg"
        (RESULTS / file).write_text(plotted(images, table), encoding="utf-8")


def cases_of(sets: Sequence[str], draws: Sequence[str], place: Path) -> Iterator[Case]:
    """Return the sets: a name, the images to learn from, and the images that are scored apart."""
    for name in sets:
        if name == "grocery":
            yield Case(name, GROCERY, test=GROCERY / "test")
        elif name == "trashnet":
            for draw in draws:
                learnt, test = drawn(TRASHNET, draw, place / f"draw-{draw}")
                yield Case(f"trashnet, draw {draw}", learnt, test=test)
        else:
            raise SystemExit(f"--sets: '{name}' is not one of grocery, trashnet")


def advisor_rows(case: Case, limits: Sequence[str]) -> Iterator[Row]:
    """Search within each limit, score the pick, and yield the rows."""
    for limit in limits:
        with tempfile.TemporaryDirectory() as place:
            asked = replace(case, options=(*case.options, "--budget", "50ms", "--time-limit", limit))
            found, seen = watched_search(asked, Path(place))
            course = list(answers(found.run, seen))
            times = (found.cpu_s, found.wall_s, found.wall_s - units.parse_seconds(limit, "--limits"))
            judged = [each.seconds for each in course if each.pick and each.pick.holdout_accuracy]
            until = f"{judged[0]:.0f}" if judged else "never"
            yield (*picked(case, limit, ADVISOR, found.run), *map(_whole, times), until, *wasted(found.run, course))


def picked(case: Case, limit: str, method: str, run: Path) -> Row:
    """Return the first cells of a row: the pick of a run, its accuracies, and what int8 costs it."""
    key = (f"{case.name}, {limit}, {method}", case.name, limit, method)
    pick = _json(run / "recommendation.json")["pick"]
    if pick is None:
        return (*key, "none", *[""] * 7)
    configuration, drops = pick["configuration"], ("", "")
    images, model = _test(case), run / pick["artefact"]
    share = scored(model, images)
    floating = model.with_name(model.name.replace(f"-{configuration['compression']}.", "-float32."))
    if "int8" in configuration["compression"] and floating.is_file():
        drops = (f"{pick['drop']['value']:.1f}", f"{float(scored(floating, images)) - float(share):.1f}")
    names = (configuration["card"], configuration["training"], configuration["compression"])
    return (*key, *names, shown(pick["accuracy"]), shown(pick["holdout_accuracy"]), share, *drops)


def wasted(run: Path, course: Sequence[AnswerSoFar]) -> tuple[str, str]:
    """Return the shares of the stages' seconds in % that went into cards without a result, and into cards with one
    that were never the pick so far.
    """
    spent = {card: sum(stages.values()) for card, stages in _json(run / "manifest.json")["durations_by_card"].items()}
    rows = [json.loads(line) for line in (run / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()]
    answered = {row["configuration"]["card"] for row in rows if row["status"] == "ok"}
    picks = {each.pick.configuration.card for each in course if each.pick}
    whole = max(sum(spent.values()), 1e-9)
    without = sum(taken for card, taken in spent.items() if card not in answered)
    never = sum(taken for card, taken in spent.items() if card in answered - picks)
    return f"{100 * without / whole:.0f}", f"{100 * never / whole:.0f}"


def script_rows(case: Case, _limits: Sequence[str]) -> Iterator[Row]:
    """Run the script once, and yield a row for each of its files."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        save_network(place / "network.keras")
        images = joined_parts(case.data, place / "images")
        classes, began = sorted(each.name for each in images.iterdir()), time.monotonic()
        script = Path(__file__).with_name("script_keras.py")
        command = [sys.executable, str(script), str(place / "network.keras"), str(images), str(place)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{case.name}: the script failed: {done.stderr[-2000:]}")
        wall_s, spent = time.monotonic() - began, _json(place / "seconds.json")
        plain = Description((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), classes)
        for step, cpu_s in spent.items():
            shares = {form: scored(place / f"{step}-{form}.tflite", _test(case), plain) for form in ("float32", "int8")}
            for form, share in shares.items():
                method = f"{SCRIPT} {step} {form}"
                drop = f"{float(shares['float32']) - float(share):.1f}" if form == "int8" else ""
                yield (
                    f"{case.name}, {method}", case.name, "", method, NETWORK, step, form, "", "", share, "", drop,
                    _whole(cpu_s), _whole(wall_s), "", "", "", "",
                )  # fmt: skip


def save_network(path: Path) -> None:
    """Write the script's network as a Keras file: images in, features out, with the weights of its card."""
    import keras

    from advisor.catalog import build_model

    card = Catalogue.load()[NETWORK]
    model = build_model(card, fetch_weights(card))
    pooled = keras.Model(model.inputs[0], model.output["features"])
    copy = keras.models.clone_model(pooled, input_tensors=keras.Input(pooled.inputs[0].shape[1:]))
    copy.set_weights(pooled.get_weights())
    copy.save(path)


def joined_parts(data: Path, place: Path) -> Path:
    """Return a folder of classes with the images that a search learns from: ``data``, or links to its parts."""
    parts = [data / name for name in ("train", "val") if (data / name).is_dir()]
    for part in parts:
        for path, label in labelled(part):
            (place / label).mkdir(parents=True, exist_ok=True)
            (place / label / f"{part.name}-{path.name}").symlink_to(path)
    return place if parts else data


@dataclass(frozen=True)
class Reached:
    """What prior order had after one of its searches: the seconds of all so far, and the run with the best pick."""

    cpu_s: float
    wall_s: float
    run: Path | None
    validation: float


def prior_rows(case: Case, limits: Sequence[str]) -> Iterator[Row]:
    """Search one card after the other within the longest limit, and yield the best pick at each limit."""
    ends = {limit: units.parse_seconds(limit, "--limits") for limit in limits}
    with tempfile.TemporaryDirectory() as place:
        reached = list(in_prior_order(case, max(ends.values()), Path(place)))
        for limit, end in ends.items():
            last = max((each for each in reached if each.wall_s <= end), key=lambda each: each.wall_s)
            key = f"{case.name}, {limit}, {PRIOR}", case.name, limit, PRIOR
            found = picked(case, limit, PRIOR, last.run) if last.run else (*key, "none", *[""] * 7)
            yield (*found, _whole(last.cpu_s), _whole(last.wall_s), "", "", "", "")


def in_prior_order(case: Case, until_s: float, place: Path) -> Iterator[Reached]:
    """Yield the best pick on validation after each search: every card's head, then its fine-tuning."""
    cards = sorted((Catalogue.load()[name] for name in CARDS), key=lambda card: -(card.top1() or 0.0))
    state = Reached(0.0, 0.0, None, -math.inf)
    yield state
    for card, training in ((card.name, training) for card in cards for training in USUAL_TRAININGS):
        left_s = until_s - state.wall_s
        if left_s < LEAST_S:
            return
        own = ("--candidates", card, "--training", training, "--compressions", "float32,int8")
        options = (*case.options, *own, "--budget", "50ms", "--time-limit", f"{left_s:.0f}s")
        found = search(replace(case, options=options), place)
        pick = _json(found.run / "recommendation.json")["pick"]
        accuracy = pick["accuracy"]["value"] if pick else -math.inf
        run, best = (found.run, accuracy) if accuracy > state.validation else (state.run, state.validation)
        state = Reached(state.cpu_s + found.cpu_s, state.wall_s + found.wall_s, run, best)
        yield state


METHODS: Mapping[str, Callable[[Case, Sequence[str]], Iterator[Row]]] = {
    ADVISOR: advisor_rows,
    SCRIPT: script_rows,
    PRIOR: prior_rows,
}


def set_of(row: Row) -> str:
    """Return the set of a row without its draw, with its speed."""
    return ", ".join(part for part in str(row[1]).split(", ") if not part.startswith("draw"))


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the means over draws for each set, limit and method, and how far searches were over their limits."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row[9]:
            cells.setdefault((set_of(row), ", ".join(filter(None, map(str, row[2:4])))), []).append(row)
    for (images, cell), found in cells.items():
        accuracy, cpu_s = (statistics.mean(float(str(row[place])) for row in found) for place in (9, 12))
        yield f"{images}, {cell}: {accuracy:.1f} % of other images in {cpu_s:.0f} CPU s, mean of {len(found)}."
    over = sorted(float(str(row[14])) for row in rows if row[14] != "")
    if over:
        median, p95 = statistics.median(over), over[math.ceil(0.95 * len(over)) - 1]
        yield f"Over the limit: median {median:.0f} s, p95 {p95:.0f} s of {len(over)} searches."


def plotted(images: str, rows: Sequence[Row]) -> str:
    """Return an SVG of the mean accuracy on a set against CPU seconds, with a line for each method."""
    own = [row for row in rows if set_of(row) == images and row[9] != ""]
    whole = max((float(str(row[12])) for row in own), default=1.0) * 1.02
    curves = {}
    for method in dict.fromkeys(_line(row) for row in own):
        runs = {str(row[1]) for row in own if _line(row) == method}
        lines = [course_of([row for row in own if _line(row) == method and row[1] == run], whole) for run in runs]
        curves[method] = [[statistics.mean(values) for values in zip(*lines, strict=True)]]
    title = f"{images}: accuracy on images that the search never saw"
    return plot(curves, whole, {}, title, "top-1 of the answer so far, mean over draws", "CPU seconds")


def course_of(rows: Sequence[Row], whole: float) -> list[float]:
    """Return the accuracy (0-1) of the last answer at equal steps of the CPU seconds, NaN before the first."""
    points = sorted((float(str(row[12])), float(str(row[9])) / 100) for row in rows)
    times = [step / STEPS * whole for step in range(1, STEPS + 1)]
    return [next((share for spent, share in reversed(points) if spent <= now), math.nan) for now in times]


def _line(row: Row) -> str:
    """Return the line of the plot that a row belongs to: the script's two steps are one."""
    method = str(row[3])
    return f"{SCRIPT} {method.split()[-1]}" if method.startswith(SCRIPT) else method


def _test(case: Case) -> list[tuple[Path, str]]:
    assert case.test is not None, "every set has images that are scored apart"
    return labelled(case.test)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _whole(value: float) -> str:
    return f"{value:.0f}"
