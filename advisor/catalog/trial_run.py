"""Run a file of one signature on a photograph, to check that a conversion computes what its origin does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def photograph(card: Card) -> NDArray[np.float32]:
    """Return a photograph of a cat as the card's input: float32 (1, S, S, 3)."""
    import numpy as np
    from skimage import data, transform

    side = card.input_size
    image = transform.resize(data.chelsea(), (side, side), order=1, preserve_range=True)
    scaled = (image - np.asarray(card.preprocessing.mean)) / np.asarray(card.preprocessing.std)
    result: NDArray[np.float32] = scaled[None].astype(np.float32)
    return result


def run(data: bytes, image: NDArray[np.float32]) -> Mapping[str, NDArray[np.float32]]:
    """Run a file of one signature over one image in LiteRT; returns its outputs by name."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    (name,) = runner.get_input_details()
    outputs: Mapping[str, NDArray[np.float32]] = runner(**{name: image})
    return outputs
