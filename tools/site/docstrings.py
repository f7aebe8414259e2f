"""Docstrings as Markdown: the references and literal blocks of reStructuredText in them are rewritten.

A function that takes the options of a search has its docstring from them: it is read from the function itself.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?(?:[\w.]*\.)?(\w+)`")
_LITERAL = re.compile(r"^( *)(.*?)::$", re.MULTILINE)


class Markdown(griffe.Extension):
    """Rewrites each docstring when it is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            decorators = obj.decorators if isinstance(obj, griffe.Function) else ()
            if any(str(each.value).startswith("takes_options") for each in decorators):
                obj.docstring.value = inspect.getdoc(getattr(import_module(obj.module.path), obj.name)) or ""
            text = _ROLE.sub(r"``\1``", obj.docstring.value)
            obj.docstring.value = _LITERAL.sub(lambda found: found[1] + found[2] + (":" if found[2] else ""), text)
