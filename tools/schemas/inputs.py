"""JSON Schemas of the files that users write: catalogue, device profile and request.

Editors complete keys by them. They come from the same types that read the files.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from advisor.catalog._schema import CardEntry, CatalogueFile, Strict
from advisor.core import PLAN, Option
from advisor.devices import Cluster, ConnectionSettings, DeviceProfile, DeviceTarget
from advisor.devices._profiles.schema import (
    ClusterSchema,
    ConnectionSchema,
    LimitsSchema,
    ProfileSchema,
    TargetSchema,
)
from advisor.devices._profiles.values import DeviceLimits
from tools.schemas.described import schema_of


@cache
def inputs() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of file that users write, by its name."""
    return {"catalogue": _catalogue(), "device_profile": _profile(), "request": _request()}


def _profile() -> dict[str, Any]:
    values: dict[type, type] = {
        ProfileSchema: DeviceProfile,
        ClusterSchema: Cluster,
        LimitsSchema: DeviceLimits,
        TargetSchema: DeviceTarget,
        ConnectionSchema: ConnectionSettings,
    }
    return schema_of(ProfileSchema, values=values) | {"title": "Device profile of advisor"}


def _catalogue() -> dict[str, Any]:
    """Return the schema of a catalogue file; its ``defaults`` may give each key of a card."""
    values: dict[type, Any] = {
        kind: kind.frozen for kind in Strict.__subclasses__() if kind is not CatalogueFile
    }
    file, card = schema_of(CatalogueFile, values=values), schema_of(CardEntry, values=values)
    parts = card.pop("$defs")
    properties = file["properties"]
    properties["defaults"] = {
        **card,
        "required": [],
        "description": properties["defaults"]["description"],
    }
    properties["cards"]["items"] = {**card, "required": ["name"]}
    return {**file, "title": "Catalogue of advisor", "$defs": parts}


def _request() -> dict[str, Any]:
    """Return the schema of a request file:
    the options of ``advisor search`` with underscores in their names.
    """
    properties = {name: _option(option) for name, option in PLAN.items() if option.kept}
    return {
        "title": "Request of advisor",
        "description": (
            "The question of advisor search --request; options of the command line take"
            " precedence."
        ),
        "type": "object",
        "properties": {
            "schema_version": {"const": 1, "description": "1 if it is missing"},
            **properties,
        },
        "additionalProperties": False,
    }


def _option(option: Option) -> dict[str, Any]:
    return {"description": option.help, **_type(option.default)}


def _type(default: object) -> Mapping[str, Any]:
    one: dict[str, Any] = {"type": ["string", "number"]}
    if isinstance(default, tuple):
        return {"anyOf": [one, {"type": "array", "items": one}]}
    if isinstance(default, bool):
        return {"type": "boolean", "default": default}
    if isinstance(default, int):
        return {"type": "integer", "minimum": 0, "default": default}
    return {**one, **({"default": default} if default else {})}
