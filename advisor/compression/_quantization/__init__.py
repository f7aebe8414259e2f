"""Quantize a float ``.tflite``: rules, ranges, rounding and bias correction."""
