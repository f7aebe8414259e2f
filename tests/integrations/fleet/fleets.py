"""Fleets and runs for tests."""

from pathlib import Path

from advisor.core import Evaluation
from advisor.store import RunFolder
from tests.builders import evaluation
from tests.predictor import with_facts
from tests.run_folders import write_run
from tests.tables import read_table

PHONES = "soc,share\nHelio G99,50\nSnapdragon 8 Gen 3,30\nSnapdragon 425,20\n"
"""A middle, a fast and a slow phone."""

BUDGET = "26ms"


def rows() -> list[Evaluation]:
    """Four files, the more accurate the slower, of which the third is hardly better than the second."""
    facts = read_table(__file__, "fleets.yaml")
    return [
        with_facts(evaluation(card, "int8", accuracy=accuracy, half_width=1, latency=1, size=size), macs, params)
        for card, (accuracy, size, macs, params) in facts.items()
    ]


def fleet_run(out: Path, fleet: str = PHONES, budget: str = BUDGET) -> RunFolder:
    return write_run(out, rows(), request={"fleet": fleet, "budget": budget})
