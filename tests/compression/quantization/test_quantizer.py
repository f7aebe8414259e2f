from __future__ import annotations

import numpy as np

from advisor.compression.recipes import recipe
from advisor.tflite.model import read


def test_ranges_hold_what_a_single_calibration_image_reaches(float_model: bytes, photographs: np.ndarray) -> None:
    loud = np.concatenate([photographs[:20] * 0.1, photographs[:1] * 8])
    tensor = read(recipe("int8").apply(float_model, loud)).inputs[0]
    assert tensor.quantization is not None
    reach = tensor.quantization.scales[0] * 255
    assert reach >= 0.99 * (loud.max() - loud.min())
