"""Fine-tuning on a GPU against the CPU of the same machine: seconds, accuracy, and the precision that was faster.

    python -m benchmarks gpu

Each row is a search of one card and one recipe on TrashNet with an empty cache of results. On a machine without a GPU
that TensorFlow uses, the rows of the GPU say that they were not run.
"""

import json
import os
import tempfile
from pathlib import Path

from advisor.measurement._host import trains_on
from benchmarks.accuracy_search import TRASHNET, Case, search, shown
from benchmarks.tables import Row, keep

CASES = (("mobilenet_v2_1.0_224", "finetune_cached"), ("efficientnet_lite1_240", "finetune_all"))
HEADER = ("network and training", "trained on", "fine-tuning s", "hold-out %", "what the log says")
REMARKS = (
    "Fine-tuning s: by the clock, of the compared network and of the one that ships, with the start of TensorFlow.",
    "Both processors take the same batches in the same order, so the hold-outs should agree within their intervals.",
)
HIDDEN = "CUDA_VISIBLE_DEVICES"


def main() -> None:
    """Search with the GPU and without it, and keep the table."""
    rows, where = list[Row](), trains_on()
    for card, training in CASES:
        if where.startswith("GPU"):
            rows.append(_row(card, training, os.environ.get(HIDDEN)))
        else:
            rows.append((f"{card} {training}", "GPU: not run here", "", "", where))
        if where.startswith("GPU") or training == CASES[0][1]:
            rows.append(_row(card, training, "-1"))
    print(keep("gpu", "Fine-tuning on a GPU", HEADER, rows, REMARKS))


def _row(card: str, training: str, seen: str | None) -> Row:
    """Search and return the row; ``seen`` is the value of CUDA_VISIBLE_DEVICES, None for none."""
    before = os.environ.pop(HIDDEN, None)
    try:
        if seen is not None:
            os.environ[HIDDEN] = seen
        options = ("--candidates", card, "--training", training, "--compressions", "float32", "--budget", "500ms")
        with tempfile.TemporaryDirectory() as name:
            run = search(Case(card, TRASHNET, options), Path(name)).run
            manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
            pick = json.loads((run / "recommendation.json").read_text(encoding="utf-8"))["pick"]
            said = [line for line in (run / "log.txt").read_text(encoding="utf-8").splitlines() if "trains on" in line]
    finally:
        os.environ.pop(HIDDEN, None)
        if before is not None:
            os.environ[HIDDEN] = before
    seconds = manifest["durations"].get(training, "")
    return f"{card} {training}", manifest["trains_on"], seconds, shown(pick["holdout_accuracy"]), "; ".join(said)
