"""JSON Schemas of dataclasses: types from the fields, descriptions from docstrings and ``#:``.

pydantic makes the schema. A class whose document differs from its fields is in a table of entries:
a name, and where its value comes from. That is a path of fields and properties, such as
``configuration.key``, or a type with a description; a table of further entries may stand for the
type. A name that ends in ``?`` may be missing, and a path that ends in ``?`` may be null.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import GenericAlias, MappingProxyType, NoneType
from typing import Any, get_args, get_type_hints

import griffe
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from advisor.core import Written
from advisor.core._codec import entries_of, types_of

Source = str | tuple[Any, str]
Entries = Mapping[str, Source]

KEY = "configuration.key"
"""What an evaluation is written as where its key stands for it."""

_MARKUP = {
    r":\w+:`~?(?:[\w.]*\.)?(\w+)`": r"\1",
    r"``?": "",
    r"\bNone\b": "null",
    r"\bTrue\b": "true",
}


def own(kind: Any) -> dict[str, Source]:
    """Return an entry for each field of a dataclass."""
    return {field.name: field.name for field in fields(kind)}


def schema_of(
    root: type,
    table: Mapping[type, Entries] = MappingProxyType({}),
    values: Mapping[type, type] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the schema of the document that a dataclass is written as,
    or that a pydantic model reads.

    Args:
        root: the dataclass or model.
        table: the entries of each class whose document differs from its fields. In the document of
            any other class, a field that has its default value is left out.
        values: for each model the class that describes its entries, besides the model itself.

    Raises:
        ValueError: an entry has no description.
    """

    class Described(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def dataclass_schema(self, schema: Any) -> dict[str, Any]:
            kind = schema["cls"]
            text = _plain(_parsed(kind)[0])
            return {"description": text, **self.written(kind, table.get(kind) or _entries(kind))}

        def model_schema(self, schema: Any) -> dict[str, Any]:
            kind, made = schema["cls"], super().model_schema(schema)
            descriptions = {**_parsed(values.get(kind, kind))[1], **_parsed(kind)[1]}
            for name, entry in made["properties"].items():
                entry["description"] = _plain(
                    _required(descriptions.get(name) or entry.get("description"), kind, name)
                )
            return made | {"description": _plain(_parsed(kind)[0])}

        def call_schema(self, schema: Any) -> dict[str, Any]:  # a named tuple
            return {
                "description": _plain(_parsed(schema["function"])[0]),
                **super().call_schema(schema),
            }

        def written(self, kind: Any, entries: Entries) -> dict[str, Any]:
            properties = {
                name.rstrip("?"): self.entry(kind, source) for name, source in entries.items()
            }
            required = [name for name in entries if not name.endswith("?")]
            return {"type": "object", "properties": properties, "required": required}

        def entry(self, kind: Any, source: Source) -> dict[str, Any]:
            value, text = _value(kind, source) if isinstance(source, str) else source
            below = isinstance(value, Mapping)
            schema = (
                self.written(kind, value)
                if below
                else self.generate_inner(TypeAdapter(value).core_schema)
            )
            return {"description": _plain(_required(text, kind, source)), **schema}

    return TypeAdapter(root).json_schema(schema_generator=Described)


def _required(text: str | None, kind: Any, entry: object) -> str:
    if not text:
        raise ValueError(f"{kind.__name__}.{entry} has no description")
    return text


def _entries(kind: Any) -> Entries:
    """Return the entries that a class declares, or its fields;
    those with a default value may then be missing.
    """
    if issubclass(kind, Written):
        return entries_of(kind)
    always = {
        field.name for field in fields(kind) if field.default is field.default_factory is MISSING
    }
    return {name if name in always else f"{name}?": name for name in own(kind)}


def _value(kind: Any, path: str) -> tuple[Any, str]:
    """Return type and description of what a path leads to;
    through a tuple, it is what each of its values leads to.
    """
    name, _, rest = path.rstrip("?").partition(".")
    declared = getattr(kind, name, None)
    if isinstance(declared, property):
        value, text = get_type_hints(declared.fget)["return"], _parsed(declared)[0]
    else:
        value, text = types_of(kind)[name], _parsed(kind)[1].get(name, "")
    if rest:
        arguments = get_args(value)
        inner = next(argument for argument in (*arguments, value) if is_dataclass(argument))
        value, below = _value(inner, rest)
        if Ellipsis in arguments:
            value = GenericAlias(tuple, (value, ...))
        elif NoneType in arguments:
            value |= None
        text = text if rest == KEY else below
    return (value | None if path.endswith("?") else value), text


@cache
def _parsed(of: Any) -> tuple[str, Mapping[str, str]]:
    """Return the first paragraph of a docstring,
    and the descriptions of attributes in it or beside the fields.
    """
    sections = griffe.Docstring(inspect.getdoc(of) or "").parse("google")
    texts = [
        section.value for section in sections if section.kind is griffe.DocstringSectionKind.text
    ]
    named = [
        section.value
        for section in sections
        if section.kind is griffe.DocstringSectionKind.attributes
    ]
    first = texts[0].partition("\n\n")[0] if texts else ""
    commented = field_comments(inspect.getsource(of)) if isinstance(of, type) else {}
    return (
        first,
        {attribute.name: attribute.description for attribute in (named[0] if named else ())}
        | commented,
    )


def field_comments(source: str) -> dict[str, str]:
    """Return the comments ``#:`` of the fields of a class:
    in the lines above a field, or behind it.
    """
    comments, texts = dict[str, str](), list[str]()
    for line in source.splitlines():
        code, _, text = line.partition("#: ")
        texts += [text] if text else []
        if code.strip():
            field = re.match(r" +(\w+): ", code)
            said = " ".join(texts)
            comments |= (
                {field[1]: said if said.endswith(".") else f"{said}."} if field and texts else {}
            )
            texts = []
    return comments


def _plain(text: str) -> str:
    """Return a description without markup, in one line and in the words of JSON."""
    for pattern, replacement in _MARKUP.items():
        text = re.sub(pattern, replacement, text)
    return " ".join(text.split())
