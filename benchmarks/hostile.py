"""Hostile input by surface: how many cases of each end badly.

The surfaces are the modules of ``tests/hostile/surfaces``; ``make test-slow`` tries a sample of each as tests.
"""

import argparse
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

from benchmarks.tables import keep
from tests.hostile.surfaces import SURFACES
from tests.hostile.surfaces.ground import KINDS, SOON_S, Ground

HEADER = ("surface", "cases", "bad", *KINDS, "seconds")
NAMED = 40  # Bad cases whose names stand under the table


def main() -> None:
    """Try the cases of the surfaces and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--surfaces", default=",".join(SURFACES), help=f"of {', '.join(SURFACES)}")
    names = parser.parse_args().surfaces.split(",")
    rows, bad = list[tuple[object, ...]](), list[str]()
    for name in names:
        started, seen, kinds = time.perf_counter(), 0, Counter[str]()
        with tempfile.TemporaryDirectory() as folder, (ground := Ground(Path(folder))).held:
            for label, tried in import_module(f"tests.hostile.surfaces.{name}").cases(ground):
                found, seen = tried(), seen + 1
                kinds.update([*found, "bad"] if found else [])
                if found:
                    bad.append(f"{name}, {label}: {', '.join(found)}")
                    print(bad[-1], flush=True)
        counts = [kinds[kind] for kind in KINDS]
        rows.append((name.replace("_", " "), seen, kinds["bad"], *counts, round(time.perf_counter() - started)))
        print(*rows[-1], flush=True)
    sums = [sum(int(str(row[column])) for row in rows) for column in range(1, len(HEADER))]
    remarks = [f"hang: not ended after {SOON_S:.0f} s", *bad[:NAMED]]
    if set(names) == set(SURFACES):
        print(keep("hostile", "Hostile input by surface", HEADER, [*rows, ("all", *sums)], remarks))


if __name__ == "__main__":
    main()
