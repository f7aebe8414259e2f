"""Protocols and baselines of the latency prediction benchmark."""
