"""Import coremltools without the frameworks that it would load beside it, which takes half a minute."""

from __future__ import annotations

import sys

FRAMEWORKS = ("tensorflow", "torch", "sklearn", "xgboost", "libsvm")


def install() -> None:
    """Make the frameworks look as if they were not installed; only in a child process that needs none of them."""
    for name in FRAMEWORKS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
