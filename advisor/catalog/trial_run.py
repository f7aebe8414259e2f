"""Run a file of one signature on a photograph, to check that a conversion computes what its origin does."""

from __future__ import annotations

from typing import Any

from advisor.catalog.cards import Card


def photograph(card: Card) -> Any:
    """A photograph of a cat as the card's input: float32 (1, S, S, 3)."""
    import numpy as np
    from skimage import data, transform

    side = card.input_size
    image = transform.resize(data.chelsea(), (side, side), order=1, preserve_range=True)
    scaled = (image - np.asarray(card.preprocessing.mean)) / np.asarray(card.preprocessing.std)
    return scaled[None].astype(np.float32)


def run(data: bytes, image: Any) -> Any:
    """Run a file of one signature over one image in LiteRT; returns its outputs by name."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    (name,) = runner.get_input_details()
    return runner(**{name: image})
