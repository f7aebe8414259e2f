"""The JSON documents of a run folder, and the type of each entry that the code uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.core.codec import parse
from advisor.core.errors import UsageError
from advisor.store.jsonfile import read_json

SCHEMA_VERSION = 1

_Texts = Mapping[str, str]
_Names = tuple[str, ...]
_Rows = tuple[Mapping[str, object], ...]

KINDS: Mapping[str, Mapping[str, Any]] = {
    "manifest.json": {
        "advisor": str, "command_line": _Names, "updated": str, "versions": _Texts, "host": Mapping[str, object],
        "data_fingerprint": str, "weights": Mapping[str, object], "cards": _Texts, "without_weights": _Texts,
        "configurations": int, "space": Mapping[str, object], "durations": Mapping[str, float], "stopped": _Texts,
        "reevaluated": _Texts, "devices": Mapping[str, object], "targets": _Texts,
    },
    "dataset.json": {
        "folder": str, "pictures_per_class": Mapping[str, int], "train": int, "validation": int, "holdout": int,
        "own_split": _Names, "notes": _Names, "rejected": _Rows, "leaks": tuple[_Names, ...], "fingerprint": str,
    },
    "split.json": {"fingerprint": str, "classes": _Names, "train": _Rows, "validation": _Rows, "holdout": _Rows},
    "diagnosis.json": {"forms": tuple[Mapping[str, object], ...]},
    "study.json": {"study": str},
    "inputs.json": {"folder": str, "catalogs": _Texts},
}  # fmt: skip
"""Type of each entry of each document, as :func:`advisor.core.codec.parse` takes it; other entries are only shown."""


@dataclass(frozen=True)
class Document:
    """A JSON document as far as it can be used.

    Attributes:
        entries: the entries without those of a wrong type; empty if the document is missing or damaged.
        problems: what is wrong with the document, and the consequence.
    """

    entries: Mapping[str, Any]
    problems: tuple[str, ...] = ()


def read_document(path: Path) -> Document:
    """Read a document of a run folder; it never fails, because every document can be missing."""
    try:
        found = read_json(path)
    except UsageError as error:
        return Document({}, (f"is damaged ({error.message.removeprefix(f'{path}: ')}): its content is ignored",))
    if not isinstance(found, dict):
        return Document({}, ("is damaged (it is not a mapping): its content is ignored",))
    kinds = KINDS.get(path.name, {})
    wrong = [name for name, value in found.items() if name in kinds and not _fits(kinds[name], value)]
    problems = [f"is damaged ({name} is of a wrong type): this entry is ignored" for name in wrong]
    version = found.get("schema_version")
    if version != SCHEMA_VERSION:
        shown = version if isinstance(version, int) else "unknown"
        problems.append(f"is of schema {shown}, not {SCHEMA_VERSION}: its content may be misread")
    return Document({name: value for name, value in found.items() if name not in wrong}, tuple(problems))


def _fits(kind: Any, value: object) -> bool:
    try:
        parse(kind, value)
    except (TypeError, ValueError):
        return False
    return True
