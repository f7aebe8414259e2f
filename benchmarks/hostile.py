"""Hostile input by surface: how many cases of each end badly.

The surfaces are the modules of ``benchmarks/hostile_surfaces``; ``make test-slow`` tries a sample of each as tests.
Rows of surfaces that a run leaves out stay in the table, each with its tree and the load of its machine.
"""

import argparse
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.hostile_surfaces import SURFACES
from benchmarks.hostile_surfaces.ground import KINDS, SOON_S, Case, Ground
from benchmarks.tables import keep, kept_of_others

HEADER = ("surface", "cases", "of", "bad", *KINDS, "seconds", "tree", "day", "load", "hang after s")
COUNTS = 3 + len(KINDS) + 1  # Columns behind the name of the surface that are summed
NAMED = 40  # Bad cases whose names stand under the table


def main() -> None:
    """Try the cases of the surfaces and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--surfaces", default=",".join(SURFACES), help=f"of {', '.join(SURFACES)}")
    parser.add_argument("--sample", type=int, help="cases of each surface, drawn at random; default: all")
    parser.add_argument("--wait", type=float, default=SOON_S, help="seconds after which a case counts as a hang")
    options = parser.parse_args()
    names = options.surfaces.split(",")
    rows, bad = list[tuple[object, ...]](), list[str]()
    for name in names:
        row, faults = try_surface(name, options.sample, options.wait)
        rows.append(row)
        bad.extend(faults)
        print(*row, flush=True)
    print(keep_table(rows, bad))


def try_surface(name: str, sample: int | None, wait_s: float) -> tuple[tuple[object, ...], Sequence[str]]:
    """Return the row of a surface, and its bad cases."""
    started = time.perf_counter()
    kinds = Counter[str]()
    bad, loads = list[str](), [os.getloadavg()[0]]
    title = name.replace("_", " ")
    with tempfile.TemporaryDirectory() as folder, (ground := Ground(Path(folder), soon_s=wait_s)).held:
        cases: Sequence[Case] = list(import_module(f"benchmarks.hostile_surfaces.{name}").cases(ground))
        chosen = cases if sample is None else random.Random(name).sample(cases, min(sample, len(cases)))
        for label, attempt in chosen:
            faults = attempt()
            loads.append(os.getloadavg()[0])
            if faults:
                kinds.update([*faults, "bad"])
                bad.append(f"{title}: {label}: {', '.join(faults)}")
                print(bad[-1], flush=True)
    seconds = round(time.perf_counter() - started)
    counts = [kinds[kind] for kind in KINDS]
    load = f"{min(loads):.0f} to {max(loads):.0f}"
    ends = (seconds, _tree(), f"{time.strftime('%Y-%m-%d', time.gmtime())}", load, round(wait_s))
    return (title, len(chosen), len(cases), kinds["bad"], *counts, *ends), bad


def keep_table(rows: Sequence[Sequence[object]], bad: Sequence[str]) -> str:
    """Write the table: these rows, and those of surfaces that were not tried now; return it."""
    titles = [name.replace("_", " ") for name in SURFACES]
    others, remarks = kept_of_others("hostile", [*(str(row[0]) for row in rows), "all"])
    merged = sorted([*others, *rows], key=lambda row: titles.index(str(row[0])))
    sums = [sum(int(str(row[column])) for row in merged) for column in range(1, 1 + COUNTS)]
    empty = [""] * (len(HEADER) - 1 - COUNTS)
    return keep(
        "hostile", "Hostile input by surface", HEADER, [*merged, ("all", *sums, *empty)], [*remarks, *bad[:NAMED]]
    )


def _tree() -> str:
    """Return the commit whose code was tried, with + where files of the code have changed since."""
    root = Path(__file__).parent.parent
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=root, capture_output=True, text=True)
    changes = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "advisor", "tests"], cwd=root)
    return f"{commit.stdout.strip() or 'unknown'}{'+' if changes.returncode else ''}"


if __name__ == "__main__":
    main()
