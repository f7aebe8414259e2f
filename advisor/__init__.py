"""Choose, retrain and compress the image model to ship on phones and small devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.api import Run, benchmark, plan, profile, search
    from advisor.core.errors import AdvisorError, UsageError

__version__ = "0.1.0"
__all__ = ["AdvisorError", "Run", "UsageError", "benchmark", "plan", "profile", "search"]


def __getattr__(name: str) -> Any:
    # Importing the package stays cheap: the command line starts before anything heavy is loaded.
    if name in ("Run", "benchmark", "plan", "profile", "search"):
        from advisor import api

        return getattr(api, name)
    if name in ("AdvisorError", "UsageError"):
        from advisor.core import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'advisor' has no attribute '{name}'")
