"""Validate a YAML file against a schema; errors name file, line, key and the nearest valid key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from advisor.core.errors import Problems, UsageError, nearest
from advisor.store.yamlfile import YamlDocument

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

    def validated(self, document: YamlDocument) -> Schema:
        """Return the validated content of the file.

        Raises:
            UsageError: it is not a mapping, it does not match the schema, or its name differs from the file's.
        """
        if not isinstance(document.values, dict):
            raise UsageError(f"{document.at()}: a {self.noun} is a mapping of keys", self.example)
        try:
            data = self.schema.model_validate(document.values)
        except ValidationError as error:
            problems = Problems()
            for refusal in self._refusals(error, document):
                problems.add(refusal)
            problems.raise_any()
            raise
        name = document.values["name"]
        if name != document.path.stem:
            raise UsageError(
                f"{document.at(('name',))}: the name '{name}' differs from the file's",
                f"rename the file to {name}.yaml",
            )
        return data

    def _refusals(self, error: ValidationError, document: YamlDocument) -> Iterator[UsageError]:
        found = error.errors(include_url=False)
        misspelt = {
            (*each["loc"][:-1], self._meant(each["loc"])) for each in found if each["type"] == "extra_forbidden"
        }
        told = set()
        for each in sorted(
            found, key=lambda each: (document.line(tuple(each["loc"])), each["type"] != "extra_forbidden")
        ):
            location = tuple(each["loc"])
            # A misspelt key also makes another key missing, and each alternative of a value has an error of its own.
            place = location if each["type"] == "missing" else _existing(document.values, location)
            if location not in misspelt and place not in told:
                told.add(place)
                yield self._refusal(each, document)

    def _meant(self, location: Sequence[str | int]) -> str:
        """Return the valid key that is nearest to the unknown key at a location, or an empty text."""
        matches = get_close_matches(str(location[-1]), list(self._schema_at(location).model_fields), n=1, cutoff=0.5)
        return matches[0] if matches else ""

    def _refusal(self, error: Any, document: YamlDocument) -> UsageError:
        location = tuple(error["loc"])
        at, key = document.at(location), str(location[-1]) if location else ""
        if error["type"] == "extra_forbidden":
            valid = tuple(self._schema_at(location).model_fields)
            return UsageError(f"{at}: unknown key '{key}'{nearest(key, valid)}", f"keys: {', '.join(valid)}")
        if error["type"] == "missing":
            return UsageError(f"{at}: the key '{key}' is missing", self.example)
        message = str(error.get("ctx", {}).get("error") or error["msg"])
        where = ".".join(map(str, location)) or f"the {self.noun}"
        return UsageError(f"{at}: {where}: {message} (it is {error['input']!r:.80})", self.example)

    def _schema_at(self, location: Sequence[str | int]) -> type[BaseModel]:
        """Return the schema of the innermost part that contains a location."""
        around = [self.parts[str(step)] for step in location[:-1] if step in self.parts]
        return around[-1] if around else self.schema


def _existing(values: Any, location: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return the part of a location that the document has, without the names of a schema's alternatives."""
    for depth, step in enumerate(location):
        within = range(len(values)) if isinstance(values, list) else values if isinstance(values, dict) else ()
        if step not in within:
            return tuple(location[:depth])
        values = values[step]
    return tuple(location)
