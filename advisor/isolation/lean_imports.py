"""Import TensorFlow and Keras in a child process without what no job needs from their imports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

OPTIONAL = frozenset({"matplotlib", "pandas", "sklearn"})
"""Keras imports them, where they are installed, for plots, data frames and wrappers: 1.1 s of 3.5 s, and 110 MB."""

LARGE = frozenset({"tensorflow", "keras"})
"""Their objects stay as long as the process. Python's collection of garbage would look at them again and again while
they are made: 0.6 s of 3.2 s."""


def install() -> None:
    """Make later imports of TensorFlow and Keras lean in this process."""
    sys.meta_path.insert(0, _Lean())


class _Lean(MetaPathFinder):
    """Reports the optional packages as missing while Keras is being imported; other code can import them.

    Large packages are imported without collection of garbage.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in OPTIONAL and _is_importing("keras"):
            raise ModuleNotFoundError(f"Keras is imported without {fullname}", name=fullname)
        if fullname in LARGE and gc.isenabled():
            return _uncollected(PathFinder.find_spec(fullname, path))
        return None


def _is_importing(module: str) -> bool:
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return getattr(spec, "_initializing", False) is True  # set by importlib while the module's code runs


def _uncollected(spec: ModuleSpec | None) -> ModuleSpec | None:
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module = partial(_execute, spec.loader)  # type: ignore[method-assign]
    return spec


def _execute(loader: Loader, module: ModuleType) -> None:
    gc.disable()
    try:
        type(loader).exec_module(loader, module)
    finally:
        gc.freeze()
        gc.enable()
