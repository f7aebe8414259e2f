"""Hostile cases by surface: each module here is one, and yields its cases by ``cases(ground)``.

Texts, models and images that are read are fuzzed instead, see ``tests/hostile/test_fuzzing.py``.
"""

SURFACES = ("commands", "run_folders", "caches", "devices", "limits", "mcp", "secrets", "serve", "servers")
"""Names of the modules."""
