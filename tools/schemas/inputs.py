"""JSON Schemas of the files that users write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from advisor.catalog.files.schema import CardEntry, CatalogueFile
from advisor.cli.search_options import described_options
from advisor.devices.profiles.schema import ProfileSchema
from advisor.engine.question.options import Options


def inputs() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of file that users write, by its name."""
    return {"catalogue": _catalogue(), "device_profile": _profile(), "request": _request()}


def _profile() -> dict[str, Any]:
    return ProfileSchema.model_json_schema() | {"title": "Device profile of advisor"}


def _catalogue() -> dict[str, Any]:
    """Return the schema of a catalogue file; its ``defaults`` may give each key of a card."""
    file, card = CatalogueFile.model_json_schema(), CardEntry.model_json_schema(ref_template="#/$defs/{model}")
    parts = card.pop("$defs")
    entry = {**card, "required": ["name"]}
    defaults = {**card, "required": [], "description": "Keys that every card of the file has unless it says otherwise."}
    properties = {**file["properties"], "defaults": defaults, "cards": {"type": "array", "minItems": 1, "items": entry}}
    return {**file, "title": "Catalogue of advisor", "properties": properties, "$defs": parts}


def _request() -> dict[str, Any]:
    """Return the schema of a request file: the options of ``advisor search`` with underscores in their names."""
    properties = {option.name: _option(option.name, option.default) for option in fields(Options)}
    return {
        "title": "Request of advisor",
        "description": "The question of advisor search --request; options of the command line take precedence.",
        "type": "object",
        "properties": {"schema_version": {"const": 1}, **properties},
        "additionalProperties": False,
    }


def _option(name: str, default: object) -> dict[str, Any]:
    (text,) = (texts[name] for texts in described_options().values() if name in texts)
    return {"description": text, **_type(default)}


def _type(default: object) -> Mapping[str, Any]:
    one: dict[str, Any] = {"type": ["string", "number"]}
    if isinstance(default, tuple):
        return {"anyOf": [one, {"type": "array", "items": one}]}
    if isinstance(default, bool):
        return {"type": "boolean", "default": default}
    if isinstance(default, int):
        return {"type": "integer", "minimum": 0, "default": default}
    return {**one, **({"default": default} if default else {})}
