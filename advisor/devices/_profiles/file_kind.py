"""Validate a YAML file against a schema, with an error for each problem that names file and line.

Device profiles (``schema.py``) and descriptions of accelerators (room ``measurement``) are such
files. Errors name a similar key, because people write these files by hand.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import (
    BaseModel,
    ValidationError,
)

from advisor.core import Problems, UsageError, nearest
from advisor.store import YamlDocument

# A profile has a few kilobytes; one with every published measurement has several hundred.
MAX_YAML_BYTES = 4_000_000

Schema = TypeVar("Schema", bound=BaseModel)


@dataclass(frozen=True)
class FileKind(Generic[Schema]):
    """A kind of file and its schema."""

    noun: str  # name of the described thing, such as ``profile``
    # Schema of the whole file. It has a ``name``, which must be the file's name.
    schema: type[Schema]
    # Schemas of the values under its keys; errors list their valid keys.
    parts: Mapping[str, type[BaseModel]]
    example: str  # hint that says where to find an example

    def read_file(self, path: Path) -> Schema:
        """Return the validated content of the file at ``path``;
        the UsageError names file and line.
        """
        return self.validate_file(YamlDocument.read(path, MAX_YAML_BYTES))

    def validate_file(self, document: YamlDocument) -> Schema:
        """Return the validated content of the file,
        a mapping that matches the schema and has the file's name.
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
        errors = error.errors(include_url=False)
        misspelt = set[tuple[str | int, ...]]()
        reported = set[tuple[str | int, ...]]()
        for error_facts in errors:
            if error_facts["type"] == "extra_forbidden":
                valid = list(self._schema_at(error_facts["loc"]).model_fields)
                meant = get_close_matches(str(error_facts["loc"][-1]), valid, n=1, cutoff=0.5)
                misspelt.update((*error_facts["loc"][:-1], name) for name in meant)
        errors.sort(
            key=lambda error_facts: (
                document.line(tuple(error_facts["loc"])),
                error_facts["type"] != "extra_forbidden",
            )
        )
        for error_facts in errors:
            location = tuple(error_facts["loc"])
            # A misspelt key also makes another key missing,
            # and each alternative of a value has an error of its own.
            place = location
            if error_facts["type"] != "missing":
                place = _find_existing(document.values, location)
            if location not in misspelt and place not in reported:
                reported.add(place)
                yield self._refusal(error_facts, document)

    def _refusal(self, error: Any, document: YamlDocument) -> UsageError:
        location = tuple(error["loc"])
        at = document.at(location)
        key = str(location[-1]) if location else ""
        if error["type"] == "extra_forbidden":
            valid = tuple(self._schema_at(location).model_fields)
            return UsageError(
                f"{at}: unknown key '{key}'{nearest(key, valid)}", f"keys: {', '.join(valid)}"
            )
        if error["type"] == "missing":
            return UsageError(f"{at}: the key '{key}' is missing", self.example)
        message = str(error.get("ctx", {}).get("error") or error["msg"])
        where = ".".join(map(str, location)) or f"the {self.noun}"
        return UsageError(f"{at}: {where}: {message} (it is {error['input']!r:.80})", self.example)

    def _schema_at(self, location: Sequence[str | int]) -> type[BaseModel]:
        """Return the schema of the innermost part that contains a location."""
        around = []
        for step in location[:-1]:
            if step in self.parts:
                around.append(self.parts[str(step)])
        return around[-1] if around else self.schema


def _find_existing(values: Any, location: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return the part of a location that the document has,
    without the names of a schema's alternatives.
    """
    for depth, step in enumerate(location):
        within: Collection[Any] = ()
        if isinstance(values, list):
            within = range(len(values))
        elif isinstance(values, dict):
            within = values
        if step not in within:
            return tuple(location[:depth])
        values = values[step]
    return tuple(location)
