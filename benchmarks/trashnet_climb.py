"""Adds the rungs to the exhaustive table of TrashNet: a quick head, the head, and fine-tuning of the same cards.

    python -m benchmarks trashnet_climb --minutes 10        # the cards that are missing, the lightest first

Cards are networks that Keras builds, at inputs where a core fine-tunes in minutes. Each rung is a search of the product
of its own over a few cards side by side, every card whether it is promising or not, and each builds on what those below
have kept, so that the seconds of a rung are those that it adds. What ships goes on to learn from the validation part:
that is part of what fine-tuning costs. All rows of a card come from one process.
"""

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from advisor.core import TrainingName
from advisor.engine import run_search
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.search_loop import SearchLoop
from advisor.engine._space import resolved as images
from advisor.engine._space.resolved import Resolved
from benchmarks.cost_table import FIRST_LOOK
from benchmarks.trashnet_table import (
    SHARED,
    SIZES,
    Stopwatch,
    asked,
    benchmark_folder,
    put,
    table,
    table_rows,
    write_sized,
)

LADDER = (TrainingName.HEAD_SUBSET, TrainingName.HEAD, TrainingName.FINETUNE_TOP)

Climber = tuple[str, int]
"""A published network and the side of its input."""

CLIMBERS: Sequence[Climber] = (
    ("mobilenet_v1_0.25_224", 128),
    ("mobilenet_v1_0.25_224", 160),
    ("mobilenet_v2_1.0_224", 128),
    ("mobilenet_v2_1.0_224_torchvision", 128),
    ("squeezenet_1.1_227", 131),
    ("mobilenet_v1_0.25_224", 224),
    ("efficientnet_lite0_224", 128),
    ("mobilenet_v1_1.0_224", 128),
    ("squeezenet_1.1_227", 163),
    ("mobilenet_v2_1.0_224", 160),
    ("mobilenet_v2_1.0_224_torchvision", 160),
    ("efficientnet_lite1_240", 128),
    ("efficientnet_lite0_224", 160),
    ("mobilenet_v1_1.0_224", 160),
    ("efficientnet_lite1_240", 176),
)
"""In the order of what they take."""


def main() -> None:
    """Let the cards climb that the table has not on every rung."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing after so many")
    parser.add_argument("--together", type=int, default=2, help="cards side by side")
    arguments = parser.parse_args()
    started = time.monotonic()
    with benchmark_folder() as place:
        while (left := missing()) and time.monotonic() - started < 60 * arguments.minutes:
            climb(left[: arguments.together], place)


def missing() -> list[Climber]:
    """Return the cards that have not climbed all rungs yet."""
    there = {row["card"] for row in table_rows() if row["training"] == LADDER[-1]}
    return [climber for climber in CLIMBERS if name_of(climber) not in there]


def climb(climbers: Sequence[Climber], place: Path) -> None:
    """Evaluate some cards on every rung and put their rows into the table."""
    bases = {name_of(climber): climber[0] for climber in climbers}
    catalogues = [_catalogue(network, place) for network in dict.fromkeys(bases.values())]
    request, started = asked(tuple(bases), catalogues, place / "runs"), time.monotonic()
    shared: dict[tuple[str, str], float] = defaultdict(float)
    rows = []
    for rung in LADDER:
        watch = Stopwatch()
        with every_card_on(rung):
            run = run_search(request, watch).run
        for stage, card in [key for key in watch.seconds if key[0] in SHARED]:
            shared[stage, card] += watch.seconds[stage, card]
        rows += table(run, {**watch.seconds, **shared}, bases)
    put(rows)
    print(f"{', '.join(bases)}: {len(rows)} rows, {time.monotonic() - started:.0f} s", flush=True)


@contextmanager
def every_card_on(rung: str) -> Iterator[None]:
    """Search one rung alone, hold no card back, and leave the finalists unjudged: that is no part of what is paid."""

    async def unjudged(*_: object) -> None:
        return None

    with ExitStack() as stack:
        stack.enter_context(patch.object(Resolved, "trainings", (rung,)))
        stack.enter_context(patch.object(images, "SUBSET_IMAGES", FIRST_LOOK))
        stack.enter_context(patch.object(SearchRule, "may_begin", lambda *_: True))
        stack.enter_context(patch.object(SearchLoop, "judge", unjudged))
        yield


def name_of(climber: Climber) -> str:
    """Return the name of the card: the network, at its own input or another."""
    network, size = climber
    return network if size == SIZES[network][0] else f"{network}_at_{size}"


def _catalogue(network: str, place: Path) -> Path:
    target = place / f"{network}.yaml"
    write_sized(network, target)
    return target


if __name__ == "__main__":
    main()
