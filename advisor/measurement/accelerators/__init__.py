"""Compute which part of a file an accelerator takes, from rules that are data."""
