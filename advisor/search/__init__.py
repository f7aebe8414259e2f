"""From a question to a decision: what is worth trying, in which order, and what came of it.

The package can be called, for ``advisor.search`` is also the function behind ``advisor search``, and one name of the
package ``advisor`` cannot be two things.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.api import Run


class _Callable(ModuleType):
    """The package, callable as :func:`advisor.api.search`."""

    def __call__(self, **options: Any) -> Run:
        from advisor.api import search

        return search(**options)


sys.modules[__name__].__class__ = _Callable
