"""Hostile cases by surface: each module of :data:`SURFACES` is one, and yields its cases by ``cases(ground)``.

The others are shared with the tests: ``ground`` and ``attempts`` run commands and judge them, ``damages`` damages
documents, and ``attacks`` builds hostile folders from tables.

Texts, models, images and answers of devices are fuzzed instead, see ``tests/hostile/test_fuzzing.py``.
"""

SURFACES = (
    "commands", "run_folders", "caches", "limits", "mcp", "secrets", "serve", "archives", "tables", "stores", "fleets",
    "signing", "batch", "places", "tryout",
)  # fmt: skip
"""Names of the modules."""
