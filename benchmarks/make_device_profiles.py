"""Make ``device_profiles/`` from tables of published measurements.

Run from the repository's root: ``python benchmarks/make_device_profiles.py ../shared/data/measurements``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from device_sources.assemble import write_profiles

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Read the command line and write the profiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, help="folder of the CSV tables")
    parser.add_argument("--out", type=Path, default=ROOT / "device_profiles")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    counts = write_profiles(arguments.tables, ROOT / "benchmarks" / "device_specs.yaml", arguments.out)
    for name, rows in counts.items():
        print(f"{name:30} {rows:5} rows")
    print(f"{len(counts)} devices, {sum(counts.values())} rows")


if __name__ == "__main__":
    main()
