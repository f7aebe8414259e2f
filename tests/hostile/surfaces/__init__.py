"""Hostile cases by surface: each module here is one, and yields its cases by ``cases(ground)``."""

SURFACES = ("run_folders",)
"""Names of the modules."""
