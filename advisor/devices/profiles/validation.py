"""Validate a YAML file against a schema; errors name file, line, key and the nearest valid key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from advisor.core.errors import UsageError, nearest
from advisor.store.yamlfile import Document

MAX_YAML_BYTES = 4_000_000
"""A profile has a few kilobytes; one with every published measurement has several hundred."""

Schema = TypeVar("Schema", bound=BaseModel)


@dataclass(frozen=True)
class FileKind(Generic[Schema]):
    """A kind of file and its schema.

    Attributes:
        noun: name of the described thing, such as ``profile``.
        schema: schema of the whole file. It has a ``name``, which must be the file's name.
        parts: schemas of the values under its keys; errors list their valid keys.
        example: hint that says where to find an example.
    """

    noun: str
    schema: type[Schema]
    parts: Mapping[str, type[BaseModel]]
    example: str

    def validated(self, document: Document) -> Schema:
        """Return the validated content of the file.

        Raises:
            UsageError: it is not a mapping, it does not match the schema, or its name differs from the file's.
        """
        if not isinstance(document.values, dict):
            raise UsageError(f"{document.at()}: a {self.noun} is a mapping of keys", self.example)
        try:
            data = self.schema.model_validate(document.values)
        except ValidationError as error:
            raise self._refusal(error, document) from error
        name = document.values["name"]
        if name != document.path.stem:
            raise UsageError(
                f"{document.at(('name',))}: the name '{name}' differs from the file's",
                f"rename the file to {name}.yaml",
            )
        return data

    def _refusal(self, error: ValidationError, document: Document) -> UsageError:
        # A misspelt key also makes another key missing; the error must name the misspelt one.
        first = min(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
        location = tuple(first["loc"])
        at, key = document.at(location), str(location[-1]) if location else ""
        if first["type"] == "extra_forbidden":
            valid = tuple(self._schema_at(location).model_fields)
            return UsageError(f"{at}: unknown key '{key}'{nearest(key, valid)}", f"keys: {', '.join(valid)}")
        if first["type"] == "missing":
            return UsageError(f"{at}: the key '{key}' is missing", self.example)
        message = str(first.get("ctx", {}).get("error") or first["msg"])
        where = ".".join(map(str, location)) or f"the {self.noun}"
        return UsageError(f"{at}: {where}: {message} (it is {first['input']!r:.80})")

    def _schema_at(self, location: Sequence[str | int]) -> type[BaseModel]:
        """Return the schema of the innermost part that contains a location."""
        around = [self.parts[str(step)] for step in location[:-1] if step in self.parts]
        return around[-1] if around else self.schema
