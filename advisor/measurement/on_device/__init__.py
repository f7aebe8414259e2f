"""Measure files on other devices, on this machine's GPU, or in other runtimes."""
