"""Documents of commands, checked with the schemas that are made from the code."""

import json
from functools import cache
from typing import Any

import jsonschema

from tools.schemas import make_schema


@cache
def validator(name: str, closed: bool = False) -> Any:
    """Return a validator of a schema; a closed one refuses every entry that is not described."""
    schema = json.loads(make_schema(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(_closed(schema) if closed else schema)


def problems(name: str, document: Any) -> list[str]:
    """Return where a document differs from its schema; an entry that is not described counts."""
    return [f"{error.json_path}: {error.message}" for error in validator(name, closed=True).iter_errors(document)]


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) and "type" in schema else {}
    return {**{name: _closed(each) for name, each in schema.items()}, **own}
