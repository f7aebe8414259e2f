"""Predict and measure files on the devices of a question; say what cannot run there."""
