"""Import Keras without the optional packages that no job needs from it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

OPTIONAL = frozenset({"matplotlib", "pandas", "sklearn"})
"""Keras imports them, where they are installed, for plots, data frames and wrappers: 1.1 s of 3.5 s, and 110 MB."""


def install() -> None:
    """Make later imports of Keras lean in this process."""
    sys.meta_path.insert(0, _WithoutOptional())


class _WithoutOptional(MetaPathFinder):
    """Reports the packages as missing while Keras is being imported. Other code can import them before and after."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname in OPTIONAL and _is_importing("keras"):
            raise ModuleNotFoundError(f"Keras is imported without {fullname}", name=fullname)


def _is_importing(module: str) -> bool:
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return getattr(spec, "_initializing", False) is True  # set by importlib while the module's code runs
