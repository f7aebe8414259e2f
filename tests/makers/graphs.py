"""Keras graphs of shipped cards, built once a test process."""

import gc
from functools import lru_cache
from typing import Any

from advisor.catalog import Catalogue, _architectures as architectures


@lru_cache(maxsize=16)
def built(name: str) -> Any:
    """The Keras graph of a shipped card, for all tests that only look at it."""
    card = Catalogue.load()[name]
    graph = architectures.build(card.architecture, card.input_size, card.classes, card.keywords)
    gc.freeze()  # its many objects stay, so no later collection of garbage looks at them
    return graph
