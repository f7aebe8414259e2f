"""What ``advisor plan`` says that a search on TrashNet takes, next to what the search then took.

Three questions in turn, each with cards that no search has seen and an empty cache but for weights: the first on a
machine that has told nothing of itself, the others after it. The plan is asked, then the search is run. Time spent on
reading the pictures and on judging finalists is part of what the search took.
"""

import os
import tempfile
import time
from pathlib import Path

from advisor.engine import Progress, preview, resolve, run_search
from advisor.store import cache_root
from benchmarks.tables import keep

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
QUESTIONS = (
    ("mobilenet_v2_1.0_224", "squeezenet_1.1_227"),
    ("efficientnet_lite0_224", "mobilenet_v1_0.25_224"),
    ("mobilenet_v1_1.0_224", "mobilenet_v2_1.0_224_torchvision", "squeezenet_1.1_224_onnx"),
)
CLOSE = 0.3
"""How far a price may be off."""


def main() -> None:
    """Ask, search and keep the table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "cache").mkdir()
        (place / "cache" / "weights").symlink_to(cache_root() / "weights")
        os.environ["ADVISOR_CACHE_DIR"] = str(place / "cache")
        rows = [_row(number, cards, place) for number, cards in enumerate(QUESTIONS, 1)]
    header = (
        "question",
        "cards",
        "configurations",
        "planned s",
        "took s",
        "took / planned",
        "within 30 %",
        "disturbed",
    )
    remarks = ["disturbed: the share of timings that saw other work on the machine; the plan prices a quiet one"]
    print(keep("plan_cost", "What a search was planned to take and took (TrashNet)", header, rows, remarks))


def _row(number: int, cards: tuple[str, ...], place: Path) -> tuple[object, ...]:
    options = {"data": str(TRASHNET), "candidates": cards, "offline": True, "out": str(place / "runs")}
    planned = preview(resolve(options)).price_s
    started = time.monotonic()
    run = run_search(resolve(options), Progress()).run
    took = time.monotonic() - started
    timings = [evaluation.contended for evaluation in run.evaluations()]
    ratio, busy = took / planned, sum(timings) / len(timings)
    close = "yes" if 1 / (1 + CLOSE) <= ratio <= 1 + CLOSE else "no"
    figures = (len(timings), f"{planned:.0f}", f"{took:.0f}", f"{ratio:.2f}", close, f"{busy:.0%}")
    return (number, ", ".join(cards), *figures)


if __name__ == "__main__":
    main()
