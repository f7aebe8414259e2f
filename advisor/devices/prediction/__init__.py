"""Predict the latency and the memory of models on devices that are not available."""
