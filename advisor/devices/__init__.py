"""Devices: their profiles, predictions of what a model takes on them, and connections to real ones."""
