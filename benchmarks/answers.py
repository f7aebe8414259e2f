"""What answering costs once everything is measured: earlier runs for a new device, the report's size, an export.

The earlier runs are written through the store, with figures drawn from the shipped cards (published accuracy, MACs,
parameters); the predictor, the decisions, the pages and the bundle are the product's own, each in a process of its own.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from advisor.catalog import Card, Catalogue
from advisor.core import CardFacts, Configuration, Evaluation, Provenance, Quantity, Status, Target
from advisor.engine import resolve
from advisor.engine._pipeline.cost import rough_ms, rough_size
from advisor.engine._space.prior_accuracy import prior_accuracy
from advisor.reporting import RunView
from advisor.reporting._html import render_html
from advisor.store import RunFolder
from benchmarks.tables import Row, keep

RUNS, DEVICE = 100, "raspberry-pi-4"
CARDS_A_RUN = 12
RECIPES = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
PAGES = (100, 1_000, 5_000)
SHIPPED = "mobilenet_v1_0.25_224"


def main() -> None:
    """Run every case and keep the table."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [_again(Path(folder)), *(_page(Path(folder), size) for size in PAGES), *_export(Path(folder))]
    remarks = (
        f"load of the machine: {os.getloadavg()[2]:.1f} (15 minutes); on a busy one the processor time counts",
        f"again: advisor reevaluate --all --device {DEVICE}, {CARDS_A_RUN * len(RECIPES)} configurations a run, the "
        "process's start, the predictions, the decisions and every file of the report included; to reach: 60 s",
        "page: report.html with every evaluation in the plots and the 1,000 best in its table; to reach: 6 MB",
        f"export: advisor export of {SHIPPED} for Android, iOS and Python, test vectors computed in LiteRT included",
    )
    print(keep("answers", "What answering costs", ("case", "seconds (of processor time)", "result"), rows, remarks))


def _again(folder: Path) -> Row:
    out = folder / "runs"
    cards = [card for card in Catalogue.load().values() if card.top1() and card.macs]
    for place in range(RUNS):
        rng = np.random.default_rng(place)
        chosen = [cards[i] for i in rng.choice(len(cards), CARDS_A_RUN, replace=False)]
        write_run(out, f"photos {place}", [row for card in chosen for row in evaluations_of(card, 2)])
    seconds, done = _timed("reevaluate", "--all", "--runs", str(out), "--device", DEVICE)
    if done.returncode not in (0, 4):
        raise SystemExit(done.stderr)
    pages = len(list(out.glob("*/report.html")))
    return f"{RUNS} earlier runs, one new device", seconds, f"{pages} new runs with their reports"


def _page(folder: Path, size: int) -> Row:
    cards = [card for card in Catalogue.load().values() if card.top1() and card.macs]
    most = -(-size // (len(cards) * len(RECIPES)))
    rows = [row for card in cards for row in evaluations_of(card, most)][:size]
    view = RunView.load(write_run(folder / "pages", f"page {size}", rows))
    start, begun = time.perf_counter(), time.process_time()
    page = render_html(view)
    seconds = f"{time.perf_counter() - start:.1f} ({time.process_time() - begun:.1f})"
    return f"page of {size:,} evaluations", seconds, f"{len(page.encode()) / 1e6:.2f} MB"


def _export(folder: Path) -> Iterator[Row]:
    out = folder / "searched"
    _, done = _timed("search", "--candidates", SHIPPED, "--compressions", "int8", "--budget", "1s", "--out", str(out))
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    seconds, done = _timed("export", str(out / "latest"), "--to", str(folder / "bundle"))
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    files = [path for path in (folder / "bundle").rglob("*") if path.is_file()]
    yield "export", seconds, f"{len(files)} files"


def _timed(*arguments: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Run the command and return its wall and processor time, in words, and what it said."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "advisor", *arguments], capture_output=True, text=True, check=False)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{wall:.1f} ({processor:.1f})", done


def write_run(out: Path, name: str, rows: list[Evaluation]) -> RunFolder:
    run = RunFolder.create(out, name)
    run.write_request(resolve({"budget": "100ms", "out": str(out)}).written)
    run.write_json("manifest.json", {"advisor": "benchmark"})
    for row in rows:
        run.append(row)
    return run


def evaluations_of(card: Card, most_threads: int) -> list[Evaluation]:
    """Return a card's configurations with figures that follow from its published ones."""
    return [_evaluation(card, recipe, threads) for recipe in RECIPES for threads in range(1, most_threads + 1)]


def _evaluation(card: Card, recipe: str, threads: int) -> Evaluation:
    latency, top1 = rough_ms(card, recipe, threads), prior_accuracy(card, recipe)
    source = "drawn from the card"
    return Evaluation(
        configuration=Configuration(card.name, "none", recipe, Target("host", "ai-edge-litert", "cpu", threads)),
        status=Status.OK,
        family=card.family,
        accuracy=Quantity(top1, "%", Provenance.PUBLISHED, source=source),
        latency=Quantity(latency, "ms", Provenance.MEASURED, 0.97 * latency, 1.04 * latency, 0.95, 200, source),
        latency_p90=Quantity(1.08 * latency, "ms", Provenance.MEASURED, source=source),
        size=Quantity(rough_size(card, recipe), "bytes", Provenance.MEASURED, source=source),
        drop=Quantity(0.0, "points", Provenance.ESTIMATED, source=source),
        artefact=f"artifacts/{card.name}-none-{recipe}.tflite",  # nobody opens it
        artefact_sha256="0" * 64,
        card_facts=CardFacts(card.params, card.macs, card.licence, card.input_size),
    )


if __name__ == "__main__":
    main()
