"""Calibrate predictions for a device with a few measurements on it."""
