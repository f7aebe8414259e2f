"""Run a file of one signature on a photograph, to check that a conversion computes what its origin does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.cards import Preprocessing
from advisor.tflite.quantization import quantize


def photograph(preprocessing: Preprocessing, size: int, name: str = "chelsea") -> NDArray[np.float32]:
    """Return a photograph of ``skimage.data``, by default of a cat, as the input of a model: float32 (1, S, S, 3)."""
    from skimage import data, transform

    image = transform.resize(getattr(data, name)(), (size, size), order=1, preserve_range=True)
    scaled = (image - np.asarray(preprocessing.mean)) / np.asarray(preprocessing.std)
    result: NDArray[np.float32] = scaled[None].astype(np.float32)
    return result


def run(data: bytes, image: NDArray[np.float32]) -> Mapping[str, NDArray[np.float32]]:
    """Run a file of one signature over one image in LiteRT, in the type of its input; return its outputs by name."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    ((name, details),) = runner.get_input_details().items()
    outputs: Mapping[str, NDArray[np.float32]] = runner(**{name: quantize(image, details)})
    return outputs
