"""Define the JSON documents of a run folder, and read one as far as it can be used.

``RunFolder`` and the check of a run's integrity read all documents here. The names and entries of
:data:`KINDS` are those of runs on the disks of users: an entry of another type is ignored, so a
type may become wider, and never narrower. A change that an older version would misread needs a new
:data:`SCHEMA_VERSION`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.core import UsageError, parse_known
from advisor.store._jsonfile import read_json

SCHEMA_VERSION = 1
_Texts = Mapping[str, str]
_Names = tuple[str, ...]
_Rows = tuple[Mapping[str, object], ...]

KINDS: Mapping[str, Mapping[str, Any]] = {
    "manifest.json": {
        "advisor": str,
        "command_line": _Names,
        "updated": str,
        "versions": _Texts,
        "host": Mapping[str, object],
        "data_fingerprint": str,
        "weights": Mapping[str, object],
        "cards": _Texts,
        "without_weights": _Texts,
        "whole_networks": _Names,
        "configurations": int,
        "space": Mapping[str, object],
        "durations": Mapping[str, float],
        "stopped": _Texts,
        "reevaluated": _Texts,
        "devices": Mapping[str, object],
        "connections": _Texts,
        "targets": _Texts,
        "seal": Mapping[str, object],
    },
    "dataset.json": {
        "folder": str,
        "pictures_per_class": Mapping[str, int],
        "train": int,
        "validation": int,
        "holdout": int,
        "own_split": _Names,
        "notes": _Names,
        "rejected": _Rows,
        "leaks": tuple[_Names, ...],
        "fingerprint": str,
        "boxes_per_class": Mapping[str, int],
        "listed": int,
        "most_images": int,
        "copies": Mapping[str, int],
    },
    "split.json": {
        "fingerprint": str,
        "classes": _Names,
        "train": _Rows,
        "validation": _Rows,
        "holdout": _Rows,
    },
    "labels.json": {"card": str, "images": int, "found": _Rows},
    "diagnosis.json": {"forms": tuple[Mapping[str, object], ...]},
    "study.json": {"study": str},
    "inputs.json": {"folder": str, "catalogs": _Texts},
}
"""Type of each entry of each document, as :func:`advisor.core.parse` takes it;
other entries are only shown.
"""


@dataclass(frozen=True)
class Document:
    """A JSON document as far as it can be used."""

    # The entries without those of a wrong type; empty if the document is missing or damaged.
    entries: Mapping[str, Any]
    problems: tuple[str, ...] = ()  # what is wrong with the document, and the consequence


def read_document(path: Path) -> Document:
    """Read a document of a run folder; it never fails, because every document can be missing."""
    try:
        content = read_json(path)
    except UsageError as error:
        why = error.message.removeprefix(f"{path}: ")
        return Document({}, (f"is damaged ({why}): its content is ignored",))
    if not isinstance(content, dict):
        return Document({}, ("is damaged (it is not a mapping): its content is ignored",))
    kinds = KINDS.get(path.name, {})
    fitting = parse_known(kinds, content)
    entries = dict(content)
    problems = []
    for name in content:
        if name in kinds and name not in fitting:
            del entries[name]
            problems.append(f"is damaged ({name} is of a wrong type): this entry is ignored")
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        shown = version if isinstance(version, int) else "unknown"
        problems.append(f"is of schema {shown}, not {SCHEMA_VERSION}: its content may be misread")
    return Document(entries, tuple(problems))
