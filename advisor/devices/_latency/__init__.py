"""Latency of a model on a target that was never measured together:
the statistics behind ``devices.prediction``.
"""
