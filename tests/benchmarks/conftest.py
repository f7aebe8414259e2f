"""A small made-up table: two networks at two inputs, two forms, on three rungs."""

from itertools import product

import pytest

from advisor.core import HEAD_SUBSET
from benchmarks.cost_table import Row
from tests.benchmarks.made_up import BASES, GAINS, made


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    """Every configuration; a quick head is in float alone and has read some of the pictures."""
    return [
        made(base, size, training, recipe, threads)
        for base, size, training, recipe, threads in product(BASES, (224, 128), GAINS, ("float32", "int8"), (1, 2))
        if training != HEAD_SUBSET or recipe == "float32"
    ]
