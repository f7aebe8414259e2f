"""How accurate the answers are on images that chose nothing: one part after the other.

    python -m benchmarks accuracy                  # every part
    python -m benchmarks accuracy --part head      # one; options behind it are the part's own

Each part is a module ``accuracy_PART.py`` with a function ``main(options)``, and writes
``results/accuracy_PART.{csv,md}``. The part ``summary`` is the last: it reads the tables of the others, and writes
``results/accuracy.{csv,md}``.
"""

from __future__ import annotations

import argparse
import importlib

PARTS = ("head", "finetune", "expectation", "search", "summary")


def main() -> None:
    """Run one part, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", choices=PARTS, help="run only this part; its own options may follow")
    chosen, options = parser.parse_known_args()
    if options and chosen.part is None:
        parser.error(f"{options[0]} is for one part: name it with --part")
    for part in (chosen.part,) if chosen.part else PARTS:
        print(f"-- {part}", flush=True)
        importlib.import_module(f"benchmarks.accuracy_{part}").main(options)
