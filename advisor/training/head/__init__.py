"""Fit the linear head on features."""
