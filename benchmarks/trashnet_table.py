"""Makes the exhaustive table of TrashNet: every card at several input sizes, on every rung, in every form, with times.

    python -m benchmarks trashnet_table --network mobilenet_v2_1.0_224 --rung head      # one piece, some minutes
    python -m benchmarks trashnet_table --minutes 10                                    # pieces that are missing

A piece is one search of the product over one published network: at its own input, at smaller ones (the same weights,
for they do not depend on the input), and cut short (``benchmarks.shortened``). Its evaluations and the seconds of every
stage become rows of ``results/trashnet_table.csv``, which ``benchmarks.search_cost`` replays; nothing is estimated.
Stages run on the cores side by side, as in a search, and their seconds are those of one core; timings hold the machine.
``BENCHMARK_FOLDER`` keeps the stages of finished pieces for the rungs above them.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from advisor.catalog.shipped import catalogue_files
from advisor.core.evaluation import Evaluation, Status
from advisor.core.training import FINETUNED, HEAD, HEAD_SUBSET
from advisor.search import context
from advisor.search.progress import Progress
from advisor.search.request import resolve
from advisor.search.run import run_search
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
FIRST_LOOK = 400
"""Pictures of the first look: the product has none at sets as small as TrashNet."""

TUNED: Mapping[str, Sequence[int]] = {"mobilenet_v1_0.25_224": (224, 160, 128), "mobilenet_v2_1.0_224": (128,)}
"""Cards that were fine-tuned too: minutes each, so the light ones."""

RUNGS = (HEAD, HEAD_SUBSET, "finetune")
SHARED = ("convert", "cut", "features")
TRAINED = ("head", "refit", "join", *FINETUNED)
HEADER = (
    "card", "base", "family", "input_size", "params", "macs", "published_top1", "training", "recipe", "threads",
    "accuracy", "latency_ms", "latency_p90_ms", "size_bytes", "contended", "shared_s", "training_s", "own_s",
    "timing_s",
)  # fmt: skip

Seconds = Mapping[tuple[str, str], float]


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
    """Make the pieces that the table lacks, or those of them that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--network", choices=tuple(SIZES), action="append")
    parser.add_argument("--rung", choices=RUNGS, action="append")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no piece after so many")
    arguments = parser.parse_args()
    started = time.monotonic()
    asked = [(network, rung) for rung in arguments.rung or RUNGS for network in arguments.network or SIZES]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(os.environ.get("BENCHMARK_FOLDER") or folder)
        _own_cache(place)
        for network, rung in asked:
            if not has_piece(network, rung) and time.monotonic() - started < 60 * arguments.minutes:
                piece(network, rung, place)


def _own_cache(place: Path) -> None:
    """Every stage is done and timed anew, but weights are not fetched again."""
    weights, cache = cache_root() / "weights", place / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / "weights").exists():
        (cache / "weights").symlink_to(weights)
    os.environ["ADVISOR_CACHE_DIR"] = str(cache)


def has_piece(network: str, rung: str) -> bool:
    """Say whether the table has rows of a network on a rung, or is to have none."""
    if rung == "finetune" and network not in TUNED:
        return True
    return any(row["base"] == network and row["training"].startswith(_prefix(rung)) for row in _rows())


def _prefix(rung: str) -> str:
    return f"{rung}_" if rung == "finetune" else rung


def piece(network: str, rung: str, place: Path) -> None:
    """Search one network on one rung and put the rows into the table in place of older ones."""
    catalogues = _catalogues(network, place / network)
    cards = _names(network, catalogues)
    if rung == "finetune":
        cards = [name for name in cards if name in _tuned(network)]
    watch = Stopwatch()
    started = time.monotonic()
    run = _search(rung, cards, catalogues, place / "runs", watch)
    rows = [dict(zip(HEADER, row, strict=True)) for row in table(run, watch.seconds, network, rung)]
    kept = [row for row in _rows() if not (row["base"] == network and row["training"] in {r["training"] for r in rows})]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        writer.writerows([*kept, *rows])
    print(f"{network} {rung}: {len(rows)} rows of {len(cards)} cards, {time.monotonic() - started:.0f} s", flush=True)


def _rows() -> list[dict[str, Any]]:
    if not TABLE.is_file():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _search(rung: str, cards: Sequence[str], catalogues: Sequence[Path], runs: Path, watch: Progress) -> RunFolder:
    request = resolve(
        {
            "data": str(TRASHNET),
            "catalog": tuple(str(file) for file in catalogues),
            "candidates": tuple(cards),
            "compressions": RECIPES,
            "training": FINETUNED if rung == "finetune" else (HEAD,),
            "stop_below": "never",
            "offline": True,
            "out": str(runs),
        }
    )
    if rung != HEAD_SUBSET:
        return run_search(request, watch).run
    with patch.object(context, "LARGE", 0), patch.object(context, "SUBSET_PICTURES", FIRST_LOOK):
        return run_search(request, watch).run


def _catalogues(network: str, place: Path) -> list[Path]:
    """Write the network's further cards as a team's catalogues: at smaller inputs, and cut short."""
    place.mkdir(parents=True, exist_ok=True)
    own, sized = place / "own.yaml", place / "sized.yaml"
    if not sized.is_file():
        own.unlink(missing_ok=True)
        shutil.rmtree(place / "models", ignore_errors=True)
        _add_cut(network, own)
        _write_sized(network, sized)
    return [sized, own]


def _write_sized(network: str, target: Path) -> None:
    for file in catalogue_files():
        family = yaml.safe_load(file.read_text(encoding="utf-8"))
        for card in cards_of(family):
            if card["name"] == network:
                entries = [resized(card, size) for size in SIZES[network][1:]]
                text = yaml.safe_dump({**family, "defaults": {}, "cards": entries}, sort_keys=False)
                target.write_text(text, encoding="utf-8")


def _add_cut(network: str, own: Path) -> None:
    from advisor.catalog.catalogue import load_catalogue
    from advisor.catalog.weights import FetchOptions, fetch

    card = load_catalogue()[network]
    weights = fetch(card, FetchOptions(offline=True))
    add_shortened(card, weights, [(SIZES[network][place], halvings) for place, halvings in CUTS], own)


def _names(network: str, catalogues: Sequence[Path]) -> list[str]:
    families = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in catalogues]
    return [network, *(card["name"] for family in families for card in family["cards"])]


def _tuned(network: str) -> set[str]:
    own = SIZES[network][0]
    return {network if size == own else f"{network}_at_{size}" for size in TUNED[network]}


def cards_of(family: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each card of a catalogue file with the family's defaults."""
    yield from ({**family.get("defaults", {}), **card} for card in family["cards"])


def resized(entry: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return the card at another input: its MACs go with the picture's area, its published figures are not its own."""
    share = (size / entry["input_size"]) ** 2
    own = {"name": f"{entry['name']}_at_{size}", "input_size": size, "macs": round(entry["macs"] * share)}
    return {**entry, **own, "published": []}


def table(run: RunFolder, seconds: Seconds, network: str, rung: str) -> Iterator[Sequence[object]]:
    """Yield a row for every configuration of the rung that was evaluated."""
    evaluations = [e for e in run.evaluations() if e.status is Status.OK]
    evaluations = [e for e in evaluations if e.configuration.training.startswith(_prefix(rung))]
    if rung == HEAD:
        evaluations = [e for e in evaluations if e.configuration.training == HEAD]
    variants = {(e.configuration.card, e.configuration.training, e.configuration.compression) for e in evaluations}
    counts = Counter(card for card, _, _ in variants)
    trainings = Counter({card: len({t for c, t, _ in variants if c == card}) for card in counts})
    published = _published_top1(network)
    for evaluation in sorted(evaluations, key=lambda e: e.configuration):
        card = evaluation.configuration.card
        own = evaluation.configuration.training if rung == "finetune" else ""
        parts = (
            _sum(seconds, card, SHARED),
            _sum(seconds, card, (own,)) if own else _sum(seconds, card, TRAINED) / trainings[card],
            _others(seconds, card) / counts[card],
            _sum(seconds, card, ("timing",)) / counts[card],
        )
        yield (*_facts(evaluation, network, published), *(f"{part:.2f}" for part in parts))


def _sum(seconds: Seconds, card: str, stages: Sequence[str]) -> float:
    return sum(seconds.get((stage, card), 0.0) for stage in stages)


def _others(seconds: Seconds, card: str) -> float:
    known = (*SHARED, *TRAINED, "timing")
    return sum(taken for (stage, name), taken in seconds.items() if name == card and stage not in known)


def _published_top1(network: str) -> float:
    from advisor.catalog.catalogue import load_catalogue

    return load_catalogue()[network].top1() or 0.0


def _facts(evaluation: Evaluation, base: str, published: float) -> tuple[object, ...]:
    configuration, details = evaluation.configuration, evaluation.details
    assert evaluation.accuracy
    assert evaluation.latency
    assert evaluation.latency_p90
    assert evaluation.size
    return (
        configuration.card, base, evaluation.family, details["input_size"], details["params"], details["macs"],
        published if configuration.card == base else "", configuration.training, configuration.compression,
        configuration.target.threads, f"{evaluation.accuracy.value:.3f}", f"{evaluation.latency.value:.4f}",
        f"{evaluation.latency_p90.value:.4f}", int(evaluation.size.value), int(evaluation.contended),
    )  # fmt: skip


if __name__ == "__main__":
    main()
