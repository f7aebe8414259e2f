"""Make imports of TensorFlow and Keras faster and smaller in a child process.

``_child.py`` installs this before the first call; nothing else of the package needs it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

OPTIONAL = frozenset({"matplotlib", "pandas", "sklearn"})
"""Keras imports them, where they are installed, for plots, data frames and wrappers:
1.1 s of 3.5 s, and 110 MB.
"""

LARGE = frozenset({"tensorflow", "keras"})
"""Their objects stay as long as the process. Python's collection of garbage would look at them
again and again while they are made: 0.6 s of 3.2 s.
"""


def install_lean_imports() -> None:
    """Make later imports of TensorFlow and Keras lean in this process."""
    sys.meta_path.insert(0, _LeanFinder())


class _LeanFinder(MetaPathFinder):
    """Reports the optional packages as missing while Keras is being imported;
    other code can import them.

    Large packages are imported without collection of garbage.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        keras = getattr(sys.modules.get("keras"), "__spec__", None)
        # importlib sets _initializing while the module's code runs
        if fullname in OPTIONAL and getattr(keras, "_initializing", False) is True:
            raise ModuleNotFoundError(f"Keras is imported without {fullname}", name=fullname)
        spec = (
            PathFinder.find_spec(fullname, path) if fullname in LARGE and gc.isenabled() else None
        )
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(_import_uncollected, spec.loader)  # type: ignore[method-assign]
        return spec


def _import_uncollected(loader: Loader, module: ModuleType) -> None:
    """Run a module's code without collection of garbage,
    and leave its objects out of later collections.
    """
    gc.disable()
    try:
        type(loader).exec_module(loader, module)
    finally:
        gc.freeze()
        gc.enable()
