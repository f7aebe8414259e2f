"""Hostile cases by surface: each module here is one, and yields its cases by ``cases(ground)``."""

SURFACES = (
    "commands", "documents", "models", "pictures", "run_folders", "caches", "devices", "exports", "limits", "mcp",
    "secrets", "serve", "servers",
)  # fmt: skip
"""Names of the modules."""
