"""The schemas that editors read accept the shipped files and refuse what a command refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import SCHEMAS, validator
from tests.tables import with_cases


@pytest.mark.parametrize(("name", "folder"), [("catalogue", "catalogs"), ("device_profile", "device_profiles")])
def test_every_shipped_file_is_valid(name: str, folder: str, project: Path) -> None:
    schema, files = validator(name), sorted((project / folder).glob("*.yaml"))
    wrong = {
        file.name: [error.message for error in schema.iter_errors(yaml.safe_load(file.read_text()))]
        for file in files
        if file.name != "cores.yaml"
    }
    assert len(wrong) > 10
    assert not any(wrong.values())


@with_cases
def test_a_mistake_is_marked(name: str, document: dict[str, Any], message: str) -> None:
    assert any(message in error.message for error in validator(name).iter_errors(document))


@pytest.mark.parametrize("path", sorted(SCHEMAS.iterdir()), ids=lambda path: path.name)
def test_every_entry_has_a_description_without_markup(path: Path) -> None:
    parts = [json.loads(path.read_text(encoding="utf-8"))]
    described = 0
    while parts:
        part = parts.pop()
        entries = part.get("properties", {})
        assert [name for name, entry in entries.items() if not re.match(r"[^`]+$", entry.get("description", ""))] == []
        described += len(entries)
        parts += [*entries.values(), *part.get("$defs", {}).values(), *([part["items"]] if "items" in part else [])]
    assert described > 10
