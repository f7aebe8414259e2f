"""Measure models: latency, memory, accuracy and operators, on this machine and on devices."""
