"""Measurements on this machine: latency, memory, loading, operators and accuracy of one ``.tflite`` file.

Import the modules themselves (``advisor.benchmark.latency``, ``.operators``, ...): this package imports nothing heavy.
"""
