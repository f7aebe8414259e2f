"""Docstrings as Markdown, for the reference of Python: references and literals are rewritten.

The comments ``#:`` of a dataclass's fields become a section of its docstring. A function that
takes the options of a search has its parameters and its docstring from them: both are read from
the function itself. ``mkdocs.yml`` names the module as an extension of mkdocstrings.
"""

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

from tools.schemas.described import field_comments

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?(?:[\w.]*\.)?(\w+)`")
_LITERAL = re.compile(r"^( *)(.*?)::$", re.MULTILINE)


class Markdown(griffe.Extension):
    """Rewrites each docstring when it is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            if isinstance(obj, griffe.Function) and any(
                "takes_options" in str(decorator.value) for decorator in obj.decorators
            ):
                _declare_options(obj, obj.docstring)
            if isinstance(obj, griffe.Class) and (known := field_comments(obj.source)):
                lines = "".join(f"\n    {name}: {text}" for name, text in known.items())
                obj.docstring.value += f"\n\nAttributes:{lines}"
            text = _ROLE.sub(r"``\1``", obj.docstring.value)
            obj.docstring.value = _LITERAL.sub(
                lambda match: match[1] + match[2] + (":" if match[2] else ""), text
            )


def _declare_options(function: griffe.Function, docstring: griffe.Docstring) -> None:
    declared = getattr(import_module(function.module.path), function.name)
    function.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                name,
                annotation=_shown(parameter.annotation),
                kind=_KINDS[parameter.kind],
                default="None" if parameter.default is None else repr(parameter.default),
            )
            for name, parameter in inspect.signature(declared).parameters.items()
        )
    )
    docstring.value = inspect.getdoc(declared) or ""


_KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
}


def _shown(annotation: Any) -> str:
    """Return an annotation without the paths of its modules."""
    shown = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", shown)
