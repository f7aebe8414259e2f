"""A file of devices or accelerators held against its schema: what is refused names file, line, key and nearest key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from advisor.core.errors import UsageError, nearest
from advisor.devices.profiles.located_yaml import LocatedYaml

Schema = TypeVar("Schema", bound=BaseModel)


@dataclass(frozen=True)
class FileKind(Generic[Schema]):
    """What a file is to hold.

    Attributes:
        noun: what it describes, such as ``profile``.
        schema: of the whole file; it has a ``name``, which is also the file's.
        parts: schemas of what stands under a key of it, for the keys that are valid there.
        example: where one can be looked at.
    """

    noun: str
    schema: type[Schema]
    parts: Mapping[str, type[BaseModel]]
    example: str

    def validated(self, document: LocatedYaml) -> Schema:
        """Return what the file says.

        Raises:
            UsageError: it is no mapping, the schema refuses it, or its name is not the file's.
        """
        if not isinstance(document.value, dict):
            raise UsageError(f"{document.at()}: a {self.noun} is a mapping of keys", self.example)
        try:
            data = self.schema.model_validate(document.value)
        except ValidationError as error:
            raise self._refusal(error, document) from error
        name = document.value["name"]
        if name != document.path.stem:
            raise UsageError(
                f"{document.at(('name',))}: the name '{name}' is not the file's", f"call the file {name}.yaml"
            )
        return data

    def _refusal(self, error: ValidationError, document: LocatedYaml) -> UsageError:
        # A misspelt key makes another one missing: the misspelling is what to tell.
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
        """Return the schema of the innermost part that encloses a location."""
        around = [self.parts[str(step)] for step in location[:-1] if step in self.parts]
        return around[-1] if around else self.schema
