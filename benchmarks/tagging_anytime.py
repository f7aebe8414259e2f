"""What a search for taggers reaches in a time limit, beside a script in plain Keras that uses the same CPU seconds.

    python -m benchmarks tagging_anytime
    python -m benchmarks tagging_anytime --sets bccd --limit 2min

Needs ../shared/data/images. A search with an empty cache of results runs for the limit. Then the script,
``benchmarks/script_keras_tags.py``, gets the CPU seconds that the search used: they do not depend on other programs.
Both learn from all images but the test part of the set, and their files are judged on that part by the same code. It
is the hold-out of the search, which judges finalists and chooses nothing.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.datasets import InputSpec, LabelSetSurvey
from advisor.measurement import label_precision, predict
from advisor.store import RunFolder
from benchmarks.accuracy_search import Case, search
from benchmarks.anytime import NETWORK, save_network
from benchmarks.tables import Row, keep, kept_of_others, percent

NAME = "tagging_anytime"
TITLE = "Taggers: a search beside a plain Keras script with the same CPU seconds"
IMAGES = Path(__file__).resolve().parents[2] / "shared" / "data" / "images"
SIDE = 224

HEADER = ("set", "method", "network", "training", "form", "mAP % (95 %)", "points behind the pick", "CPU s", "wall s")
REMARKS = (
    "mAP on the test part of the set, which nobody learnt from, with its range on as many other images.",
    "The script tunes the last blocks of MobileNetV2 with sigmoids until it has used the CPU seconds of the search, "
    "and keeps the weights with the least loss on a fifth of the images.",
    "CPU seconds of all processes. Other programs used the machine, so seconds by the clock are no measure.",
    "One draw of each set: the cards and the cells have an official test part.",
    "A random fifth of the cards chose that taggers are fine-tuned, so their rows may flatter the search. The gain "
    "that a search expects of it was set after a look at one draw of the cells.",
)


@dataclass(frozen=True, eq=False)
class TagParts:
    """A set of images with labels, divided by its own parts."""

    read: LabelSetSurvey
    learnt: tuple[int, ...]
    test: tuple[int, ...]

    def judge(self, scores: NDArray[np.float32]) -> label_precision.LabelScores:
        """Return what scores of the test part reach."""
        return label_precision.LabelScores(scores, self.read.truth[list(self.test)])

    def paths(self, places: tuple[int, ...]) -> list[Path]:
        """Return the files of images."""
        return [self.read.images.dataset.images[place].path for place in places]


def main() -> None:
    """Run the search and the script on the chosen sets, and keep their rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sets", default="cards,bccd", help="joined by commas")
    parser.add_argument("--limit", default="5min", help="time limit of the search")
    chosen = parser.parse_args()
    sets = chosen.sets.split(",")
    rows, _ = kept_of_others(NAME, sets)
    for name in sets:
        rows += rows_of(name, chosen.limit)
        print(keep(NAME, TITLE, HEADER, rows, REMARKS), flush=True)


def rows_of(name: str, limit: str) -> Iterator[Row]:
    """Yield the row of the search, and one for each file of the script."""
    read = LabelSetSurvey.read_images(IMAGES / name)
    split = read.divide_images(0).split
    parts = TagParts(read, (*split.train, *split.validation), split.holdout)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        options = ("--task", "image-tagging", "--budget", "50ms", "--time-limit", limit, "--quiet")
        finished = search(Case(name, IMAGES / name, options), place)
        folder_of_run = RunFolder(finished.run)
        artefact = folder_of_run.read_json("recommendation.json")["pick"]["artefact"]
        pick = next(row for row in folder_of_run.evaluations() if row.artefact == artefact)
        values = pick.card_facts.preprocessing
        assert values, "a search knows how its pick takes images"
        view = InputSpec(pick.card_facts.input_size or SIDE, values.mean, values.std)
        figure = parts.judge(predict(finished.run / artefact, parts.paths(parts.test), view)).figure
        spent = (f"{finished.cpu_s:.0f}", f"{finished.wall_s:.0f}")
        described = (pick.configuration.card, pick.configuration.training, pick.configuration.compression)
        yield name, f"search, {limit}", *described, percent(figure), "", *spent
        for row in script_rows(parts, finished.cpu_s, place):
            behind = f"{100 * (figure.value - row[-1]):.1f}"
            yield name, *row[:5], behind, *row[5:-1]


def script_rows(
    parts: TagParts, cpu_s: float, place: Path
) -> Iterator[tuple[str, str, str, str, str, str, str, float]]:
    """Run the script; yield method, network, training, form, mAP, seconds and the value of the mAP of each file."""
    save_network(place / "network.keras")
    write_table(parts, place / "learnt.csv")
    script = Path(__file__).with_name("script_keras_tags.py")
    arguments = [str(place / "network.keras"), str(place / "learnt.csv"), str(place), f"{cpu_s:.0f}"]
    done = subprocess.run([sys.executable, str(script), *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the script failed: {done.stderr[-2000:]}")
    spent = json.loads((place / "seconds.json").read_text())
    order = [spent["classes"].index(label) for label in parts.read.classes]
    view = InputSpec(SIDE, (0.0,) * 3, (1.0,) * 3)
    for step in ("head", "tuned"):
        for form in ("float32", "int8"):
            scores = predict(place / f"{step}-{form}.tflite", parts.paths(parts.test), view)
            figure = parts.judge(scores[:, order]).figure
            doing = f"{step}, {spent['epochs']:.0f} epochs" if step == "tuned" else step
            yield "script", NETWORK, doing, form, percent(figure), f"{spent[step]:.0f}", "", figure.value


def write_table(parts: TagParts, table: Path) -> None:
    """Write a table of the images that are learnt from."""
    with table.open("w", newline="", encoding="utf-8") as file:
        rows: list[Row] = [("path", "labels")]
        names = ["|".join(parts.read.labels_of(place)) for place in parts.learnt]
        rows += zip(map(str, parts.paths(parts.learnt)), names, strict=True)
        csv.writer(file).writerows(rows)
