"""Makes the exhaustive table of TrashNet: every card at several input sizes, in every form, with what each stage took.

    python -m benchmarks.trashnet_table        # about ten minutes of an otherwise idle machine with 2 cores

It is one search of the product over a team's catalogue in which each card with weights also stands at smaller inputs:
the same weights, for they do not depend on the input. The evaluations and the seconds of every stage become
``results/trashnet_table.csv``, which ``benchmarks.search_cost`` replays; nothing in it is estimated.
"""

from __future__ import annotations

import csv
import os
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from advisor.catalog.shipped import catalogue_files
from advisor.core.evaluation import Evaluation, Status
from advisor.search.progress import Progress
from advisor.search.request import resolve
from advisor.search.run import run_search
from advisor.store import RunFolder, cache_root
from benchmarks.tables import RESULTS

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
SIZES: Mapping[str, Sequence[int]] = {
    "mobilenet_v1_0.25_224": (128, 160, 192),
    "mobilenet_v1_1.0_224": (128, 160, 192),
    "mobilenet_v2_1.0_224": (128, 160, 192),
    "mobilenet_v2_1.0_224_torchvision": (128, 160, 192),
    "squeezenet_1.1_227": (131, 163, 195),
    "efficientnet_lite0_224": (128, 160, 192),
    "efficientnet_lite1_240": (128, 176, 208),
    "efficientnet_lite2_260": (132, 196),
}
"""Further inputs of each card, beside its own."""

RECIPES = ("float32", "float16", "dynamic_int8", "int8")
SHARED = ("convert", "cut", "features", "head", "join")
HEADER = (
    "card", "base", "family", "input_size", "params", "macs", "published_top1", "recipe", "threads", "accuracy",
    "latency_ms", "latency_p90_ms", "size_bytes", "contended", "shared_s", "own_s", "timing_s",
)  # fmt: skip


class Stopwatch(Progress):
    """Takes the time of every stage from its start to its end."""

    def __init__(self) -> None:
        super().__init__(shown=False)
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._begun: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        self._guard = threading.Lock()

    def stage(self, name: str, card: str, doing: str, event: str) -> None:
        """Add what a finished stage took."""
        with self._guard:
            if event == "started":
                self._begun[name, card, doing].append(time.monotonic())
            elif event == "done" and self._begun[name, card, doing]:
                begun = self._begun[name, card, doing].pop(0)
                self.seconds[name.rsplit("-", 1)[0], card] += time.monotonic() - begun


def main() -> None:
    """Search everything with an empty cache and keep the table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "cache").mkdir()
        (place / "cache" / "weights").symlink_to(cache_root() / "weights")
        os.environ["ADVISOR_CACHE_DIR"] = str(place / "cache")
        cards = write_catalogues(place)
        request = resolve(
            {
                "data": str(TRASHNET),
                "catalog": tuple(str(file) for file in sorted(place.glob("*.yaml"))),
                "candidates": (*SIZES, *cards),
                "compressions": RECIPES,
                "stop_below": "never",
                "out": str(place / "runs"),
            }
        )
        watch = Stopwatch()
        run = run_search(request, watch).run
        rows = list(table(run, watch.seconds, {**{name: name for name in SIZES}, **cards}))
    with (RESULTS / "trashnet_table.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *rows])
    print(f"{len(rows)} configurations of {len({row[0] for row in rows})} cards")


def write_catalogues(folder: Path) -> dict[str, str]:
    """Write the cards at their further inputs as a team's catalogues; returns each one's origin by name."""
    origins: dict[str, str] = {}
    for file in catalogue_files():
        family = yaml.safe_load(file.read_text(encoding="utf-8"))
        entries = [resized(card, size) for card in cards_of(family) for size in SIZES.get(card["name"], ())]
        if entries:
            text = yaml.safe_dump({**family, "defaults": {}, "cards": entries}, sort_keys=False)
            (folder / file.name).write_text(text, encoding="utf-8")
            origins |= {entry["name"]: entry["name"].rpartition("_at_")[0] for entry in entries}
    return origins


def cards_of(family: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each card of a catalogue file with the family's defaults."""
    yield from ({**family.get("defaults", {}), **card} for card in family["cards"])


def resized(entry: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return the card at another input: its MACs go with the picture's area, its published figures are not its own."""
    share = (size / entry["input_size"]) ** 2
    own = {"name": f"{entry['name']}_at_{size}", "input_size": size, "macs": round(entry["macs"] * share)}
    return {**entry, **own, "published": []}


def table(
    run: RunFolder, seconds: Mapping[tuple[str, str], float], origins: Mapping[str, str]
) -> Iterator[Sequence[object]]:
    """Yield a row for every configuration that was evaluated."""
    evaluations = [e for e in run.evaluations() if e.status is Status.OK]
    forms: dict[str, set[str]] = defaultdict(set)
    for evaluation in evaluations:
        forms[evaluation.configuration.card].add(evaluation.configuration.compression)
    published = {e.configuration.card: 0.0 for e in evaluations} | published_top1()
    for evaluation in sorted(evaluations, key=lambda e: e.configuration):
        card, count = evaluation.configuration.card, len(forms[evaluation.configuration.card])
        shared = sum(seconds.get((stage, card), 0.0) for stage in SHARED)
        own = sum(
            taken for (stage, name), taken in seconds.items() if name == card and stage not in (*SHARED, "timing")
        )
        timing = seconds.get(("timing", card), 0.0)
        yield (
            *_facts(evaluation, origins[card], published),
            f"{shared:.2f}",
            f"{own / count:.2f}",
            f"{timing / count:.2f}",
        )


def published_top1() -> dict[str, float]:
    """Return the published float top-1 of each card that has one, in %."""
    from advisor.catalog.catalogue import load_catalogue

    return {card.name: card.top1() or 0.0 for card in load_catalogue().select(tuple(SIZES))}


def _facts(evaluation: Evaluation, base: str, published: Mapping[str, float]) -> tuple[object, ...]:
    configuration, details = evaluation.configuration, evaluation.details
    assert evaluation.accuracy
    assert evaluation.latency
    assert evaluation.latency_p90
    assert evaluation.size
    return (
        configuration.card, base, evaluation.family, details["input_size"], details["params"], details["macs"],
        published[base], configuration.compression, configuration.target.threads, f"{evaluation.accuracy.value:.3f}",
        f"{evaluation.latency.value:.4f}", f"{evaluation.latency_p90.value:.4f}", int(evaluation.size.value),
        int(evaluation.contended),
    )  # fmt: skip


if __name__ == "__main__":
    main()
