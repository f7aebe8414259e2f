"""Keras graphs, one family a module.

Each module has one public function, ``build(input_size, classes, **arguments) -> Network``; the module's name is
what a card calls ``architecture``. Layer names never begin with an underscore: the converter dies of them.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from advisor.catalog.cards import OWN_FILE
from advisor.core.errors import UsageError


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """Return the architectures that a card may name, without importing any."""
    return (*sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")), OWN_FILE)


def build(name: str, input_size: int, classes: int, arguments: dict[str, Any]) -> Any:
    """Build the Keras graph ``name``: image (1, S, S, 3) in, ``{"probabilities", "features"}`` out.

    Raises:
        UsageError: no such architecture, or arguments that it does not take.
    """
    if name == OWN_FILE:
        raise UsageError("a card of a user's own file has no graph: the file is taken as it is")
    if name not in names():
        raise UsageError(f"no architecture is called '{name}'")
    module = import_module(f"{__name__}.{name}")
    try:
        return module.build(input_size=input_size, classes=classes, **arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"architecture '{name}' cannot be built with {arguments}: {error}") from error
