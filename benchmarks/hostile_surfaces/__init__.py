"""Hostile cases by surface: each module here is one, and yields its cases by ``cases(ground)``.

Texts, models, images and answers of devices are fuzzed instead, see ``tests/hostile/test_fuzzing.py``.
"""

SURFACES = (
    "commands", "run_folders", "caches", "limits", "mcp", "secrets", "serve", "archives", "tables", "stores", "fleets",
    "signing", "batch", "places", "tryout",
)  # fmt: skip
"""Names of the modules."""
