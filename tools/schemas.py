"""Write the JSON Schemas of the files that users write: ``python -m tools.schemas``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from advisor.catalog.files.schema import CardEntry, CatalogueFile
from advisor.cli.search_options import described_options
from advisor.devices.profiles.schema import ProfileSchema
from advisor.engine.question.options import Options

SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, str]:
    """Return the text of each generated schema by the name of its file."""
    made = {"catalogue": _catalogue(), "device_profile": _profile(), "request": _request()}
    return {
        f"{name}.schema.json": json.dumps({"$schema": DRAFT, **schema}, indent=1, ensure_ascii=False) + "\n"
        for name, schema in made.items()
    }


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


def main() -> None:
    """Write every schema."""
    for name, text in schemas().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
        typer.echo(f"wrote docs/schemas/{name}")


if __name__ == "__main__":
    main()
