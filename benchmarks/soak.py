"""Many small searches in one Python process: what they leave among temporary files, processes, files and memory.

Each search has another seed, so it splits, trains, compresses and measures anew. The first ones import libraries and
fill caches; growth counts from the search after them.
"""

import argparse
import gc
import os
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

import advisor
from benchmarks.tables import keep
from tests.makers.searches import SMALLEST, linked_cache, write_photos

HEADER = ("searches", "seconds", "memory (MB)", "grown (MB)", "temporary files", "processes", "threads", "open files")
SEARCHES, MINUTES = 200, 30.0
WARM_UP = 5
"""Searches before growth is counted."""

ROWS = 10


@dataclass(frozen=True)
class Left:
    """What the process has after a number of searches; memory in MB."""

    searches: int
    seconds: float
    memory: float
    grown: float
    temporary: int
    processes: int
    threads: int
    files: int


def main() -> None:
    """Search again and again and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=SEARCHES)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="stop after this time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ADVISOR_CACHE_DIR"] = str(linked_cache(folder / "cache"))
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
        (folder / "tmp").mkdir()
        write_photos(folder / "photos")
        found = soak(folder, options.searches, options.minutes * 60)
    every = max(1, (len(found) - WARM_UP) // ROWS)
    shown = [*found[:1], *found[WARM_UP - 1 : -1 : every], found[-1]]
    rows = [[f"{value:.1f}" if isinstance(value, float) else value for value in astuple(left)] for left in shown]
    remarks = [
        f"{len(found)} searches in one process: one card, two forms, 48 images, each with another seed",
        f"memory is the resident memory of the parent; growth counts from search {WARM_UP}",
    ]
    print(keep("soak", "Many searches in one process", HEADER, rows, remarks))


def soak(folder: Path, searches: int, seconds: float) -> list[Left]:
    """Search until the number or the time is reached, and return what is left after each search."""
    began, found, own = time.monotonic(), list[Left](), psutil.Process()
    others = len(own.children(recursive=True))
    while len(found) < searches and (not found or time.monotonic() - began < seconds):
        run = advisor.search(
            data=folder / "photos", candidates=[SMALLEST], compressions=["float32", "int8"], training=["head"],
            threads=[1], budget="50ms", seed=len(found), out=folder / "runs", quiet=True,
        )  # fmt: skip
        assert run.pick is not None
        gc.collect()
        memory = own.memory_info().rss / 1e6
        base = found[WARM_UP - 1].memory if len(found) >= WARM_UP else memory
        temporary = sum(1 for _ in (folder / "tmp").rglob("*"))
        processes = len(own.children(recursive=True)) - others
        found.append(
            Left(
                len(found) + 1, time.monotonic() - began, memory, memory - base, temporary, processes,
                own.num_threads(), own.num_fds(),
            )
        )  # fmt: skip
        if len(found) % ROWS == 0:
            print(found[-1], flush=True)
    return found
