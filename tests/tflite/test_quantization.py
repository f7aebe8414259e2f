"""Values become the numbers of a tensor and come back."""

from __future__ import annotations

import numpy as np

from advisor.tflite.quantization import dequantize, quantize


def test_quantise_rounds_clips_and_comes_back() -> None:
    detail = {"dtype": np.int8, "quantization": (0.5, -3)}
    stored = quantize(np.array([0.0, 0.24, 0.26, 1e9, -1e9], np.float32), detail)
    assert stored.tolist() == [-3, -3, -2, 127, -128]
    assert dequantize(stored[:3], detail).tolist() == [0.0, 0.0, 0.5]
