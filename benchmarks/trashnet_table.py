"""Makes the exhaustive table of TrashNet: every card at several input sizes, in every form, with times.

    python -m benchmarks trashnet_table --network mobilenet_v2_1.0_224      # one piece, some minutes
    python -m benchmarks trashnet_table --minutes 10                        # pieces that are missing

A piece is one search of the product over one published network: at its own input, at smaller ones (the same weights,
for they do not depend on the input), and cut short (``benchmarks.shortened``). Its evaluations and the seconds of every
stage become rows of ``results/trashnet_table.csv``, which ``benchmarks.search_cost`` replays; nothing is estimated.
Stages run on the cores side by side, as in a search, and their seconds are those of one core; timings hold the machine.
The rungs above the head are added by ``benchmarks.trashnet_climb``.
"""

import argparse
import contextlib
import csv
import math
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from advisor.catalog._catalogue import list_shipped_files
from advisor.core import Evaluation, Status, TrainingName, list_choosable, recipe_of
from advisor.engine import Progress, Request, resolve, run_search
from advisor.engine._pipeline.stage_events import Durations, StageEvent
from advisor.store import RunFolder, cache_root
from benchmarks.shortened import add_shortened
from benchmarks.tables import RESULTS

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
TABLE = RESULTS / "trashnet_table.csv"

SIZES: Mapping[str, Sequence[int]] = {
    "mobilenet_v1_0.25_224": (224, 160, 128),
    "mobilenet_v2_1.0_224": (224, 160, 128),
    "squeezenet_1.1_227": (227, 163, 131),
    "efficientnet_lite0_224": (224, 160, 128),
    "mobilenet_v1_1.0_224": (224, 160, 128),
    "mobilenet_v2_1.0_224_torchvision": (224, 160, 128),
    "efficientnet_lite1_240": (240, 176, 128),
    "efficientnet_lite2_260": (260, 196, 132),
    "squeezenet_1.1_224_onnx": (224, 160, 128),
    "inception_v3_299": (299, 203, 139),
}
"""Inputs of each network whose weights a package index holds, its own first."""

CUTS = ((0, 1), (1, 1), (0, 2))
"""Each network also stands cut short: at which of its inputs, and by how many resolutions."""

RECIPES = ("float32", "float16", "dynamic_int8", "int8")
SHARED = ("convert", "cut", "features")
TRAINED = ("head", "refit", "join", *(name for name in list_choosable() if recipe_of(name).tunes_backbone))
HEADER = (
    "card", "base", "family", "input_size", "params", "macs", "published_top1", "training", "recipe", "threads",
    "accuracy", "latency_ms", "latency_p90_ms", "size_bytes", "contended", "shared_s", "training_s", "own_s",
    "timing_s",
)  # fmt: skip

Row = dict[str, Any]
Seconds = Mapping[tuple[str, str], float]


class Stopwatch(Progress):
    """Adds up what each stage of each card takes, without the time that it stood still for a timing."""

    def __init__(self) -> None:
        super().__init__()
        self.durations = Durations()

    def stage(self, event: StageEvent, spare: bool = False) -> None:
        """Add what a finished stage took."""
        self.durations.note(event)

    @property
    def seconds(self) -> Mapping[tuple[str, str], float]:
        """Seconds by stage and card."""
        return {(stage, card): seconds for (card, stage), seconds in self.durations.seconds.items()}


def main() -> None:
    """Make the pieces that the table lacks, or those of them that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--network", choices=tuple(SIZES), action="append")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no piece after so many")
    arguments = parser.parse_args()
    started = time.monotonic()
    with benchmark_folder() as place:
        for network in arguments.network or SIZES:
            if not has_piece(network) and time.monotonic() - started < 60 * arguments.minutes:
                piece(network, place)


@contextlib.contextmanager
def benchmark_folder() -> Iterator[Path]:
    """Give a folder whose cache is the product's: every stage is done and timed anew, but weights are not fetched."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(os.environ.get("BENCHMARK_FOLDER") or folder)
        _own_cache(place)
        yield place


def _own_cache(place: Path) -> None:
    weights, cache = cache_root() / "weights", place / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / "weights").exists():
        (cache / "weights").symlink_to(weights)
    os.environ["ADVISOR_CACHE_DIR"] = str(cache)


def has_piece(network: str) -> bool:
    """Say whether the table has rows of a network."""
    return any(row["base"] == network for row in table_rows())


def piece(network: str, place: Path) -> None:
    """Search one network and put the rows into the table in place of older ones."""
    catalogues = _catalogues(network, place / network)
    cards, watch, started = _names(network, catalogues), Stopwatch(), time.monotonic()
    run = run_search(asked(cards, catalogues, place / "runs"), watch).run
    rows = list(table(run, watch.seconds, dict.fromkeys(cards, network)))
    put(rows)
    print(f"{network}: {len(rows)} rows of {len(cards)} cards, {time.monotonic() - started:.0f} s", flush=True)


def put(rows: Sequence[Row]) -> None:
    """Put rows into the table in place of older ones of the same cards and rungs."""
    new = {(row["card"], row["training"]) for row in rows}
    kept = [row for row in table_rows() if (row["card"], row["training"]) not in new]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        writer.writerows([*kept, *rows])


def table_rows() -> list[Row]:
    """Return the rows that there are."""
    if not TABLE.is_file():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def asked(cards: Sequence[str], catalogues: Sequence[Path], runs: Path) -> Request:
    """Return the question of a piece."""
    return resolve(
        {
            "data": str(TRASHNET),
            "catalog": tuple(str(file) for file in catalogues),
            "candidates": tuple(cards),
            "compressions": RECIPES,
            "training": (TrainingName.HEAD,),
            "stop_below": "never",
            "offline": True,
            "out": str(runs),
        }
    )


def _catalogues(network: str, place: Path) -> list[Path]:
    """Write the network's further cards as a team's catalogues: at smaller inputs, and cut short."""
    place.mkdir(parents=True, exist_ok=True)
    own, sized = place / "own.yaml", place / "sized.yaml"
    if not sized.is_file():
        own.unlink(missing_ok=True)
        shutil.rmtree(place / "models", ignore_errors=True)
        _add_cut(network, own)
        write_sized(network, sized)
    return [sized, own]


def write_sized(network: str, target: Path) -> None:
    """Write a catalogue of the network at its smaller inputs."""
    for file in list_shipped_files():
        family = yaml.safe_load(file.read_text(encoding="utf-8"))
        for card in cards_of(family):
            if card["name"] == network:
                entries = [resized(card, size) for size in SIZES[network][1:]]
                text = yaml.safe_dump({**family, "defaults": {}, "cards": entries}, sort_keys=False)
                target.write_text(text, encoding="utf-8")


def _add_cut(network: str, own: Path) -> None:
    from advisor.catalog import Catalogue, fetch_weights
    from advisor.store import FetchOptions

    card = Catalogue.load()[network]
    weights = fetch_weights(card, FetchOptions(offline=True))
    add_shortened(card, weights, [(SIZES[network][place], halvings) for place, halvings in CUTS], own)


def _names(network: str, catalogues: Sequence[Path]) -> list[str]:
    families = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in catalogues]
    return [network, *(card["name"] for family in families for card in family["cards"])]


def cards_of(family: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each card of a catalogue file with the family's defaults."""
    yield from ({**family.get("defaults", {}), **card} for card in family["cards"])


def resized(entry: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return the card at another input: its MACs go with the picture's area, its published figures are not its own."""
    share = (size / entry["input_size"]) ** 2
    own = {"name": f"{entry['name']}_at_{size}", "input_size": size, "macs": round(entry["macs"] * share)}
    return {**entry, **own, "published": []}


def table(run: RunFolder, seconds: Seconds, bases: Mapping[str, str]) -> Iterator[Row]:
    """Yield a row for every configuration of a run over one rung that was evaluated; ``bases`` names its networks."""
    evaluations = [e for e in run.evaluations() if e.status is Status.OK]
    counts = Counter(card for card, _ in {(e.configuration.card, e.configuration.compression) for e in evaluations})
    for evaluation in sorted(evaluations, key=lambda e: e.configuration):
        card = evaluation.configuration.card
        parts = (
            _sum(seconds, card, SHARED),
            _sum(seconds, card, TRAINED),
            _others(seconds, card) / counts[card],
            _sum(seconds, card, ("timing",)) / counts[card],
        )
        facts = (*_facts(evaluation, bases[card]), *(f"{part:.2f}" for part in parts))
        yield dict(zip(HEADER, facts, strict=True))


def _sum(seconds: Seconds, card: str, stages: Sequence[str]) -> float:
    return sum(seconds.get((stage, card), 0.0) for stage in stages)


def _others(seconds: Seconds, card: str) -> float:
    known = (*SHARED, *TRAINED, "timing")
    return sum(taken for (stage, name), taken in seconds.items() if name == card and stage not in known)


def _published_top1(network: str) -> float:
    from advisor.catalog import Catalogue

    return Catalogue.load()[network].top1() or 0.0


def _facts(evaluation: Evaluation, base: str) -> tuple[object, ...]:
    configuration, card = evaluation.configuration, evaluation.card_facts
    assert evaluation.accuracy
    assert evaluation.latency
    assert evaluation.latency_p90
    assert evaluation.size
    return (
        configuration.card, base, evaluation.family, card.input_size, card.params, card.macs,
        _published_top1(base) if configuration.card == base else "", configuration.training, configuration.compression,
        configuration.target.threads, f"{evaluation.accuracy.value:.3f}", f"{evaluation.latency.value:.4f}",
        f"{evaluation.latency_p90.value:.4f}", int(evaluation.size.value), int(evaluation.contended),
    )  # fmt: skip


if __name__ == "__main__":
    main()
