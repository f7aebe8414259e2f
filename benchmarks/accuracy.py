"""How accurate the answers are on images that chose nothing: one part after the other.

    python -m benchmarks accuracy                  # every part
    python -m benchmarks accuracy --part head      # one; options behind it are the part's own

Each part is a module ``accuracy_PART.py`` with a function ``main(options)``, and writes
``results/accuracy_PART.{csv,md}``. The part ``summary`` is the last: it reads the tables of the others, and writes
``results/accuracy.{csv,md}``.
"""

import argparse
import importlib
from collections.abc import Sequence

SEEDS = "0,1,2,3,4"
PARTS = ("head", "finetune", "expectation", "pick", "search", "summary")


def part_parser(part: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser without options.

    Args:
        part: the part's name.
        about: the documentation of its module, which its help shows.
    """
    prog, shown = f"python -m benchmarks accuracy --part {part}", argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog, description=about, formatter_class=shown)


def parser_of(part: str, about: str | None, cards: str, sets: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return a parser of the options that parts share: ``--seeds``, ``--cards`` and, if there are several, ``--sets``.

    Args:
        part: the part's name.
        about: the documentation of its module.
        cards: the cards by default, joined by commas.
        sets: names of all sets of images.
    """
    parser = part_parser(part, about)
    if sets:
        parser.add_argument("--sets", default=",".join(sets), help=f"of {', '.join(sets)}, joined by commas")
    parser.add_argument("--seeds", default=SEEDS, help="seeds of TrashNet's split, joined by commas")
    parser.add_argument("--cards", default=cards, help="cards, joined by commas")
    return parser


def main() -> None:
    """Run one part, or all of them."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks accuracy", description=__doc__, add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--part", choices=PARTS, help="run only this part; --part PART --help shows its own options")
    chosen, options = parser.parse_known_args()
    if chosen.part is None and {"-h", "--help"} & set(options):
        parser.print_help()
        return
    if options and chosen.part is None:
        parser.error(f"{options[0]} is for one part: name it with --part")
    for part in (chosen.part,) if chosen.part else PARTS:
        print(f"-- {part}", flush=True)
        importlib.import_module(f"benchmarks.accuracy_{part}").main(options)
