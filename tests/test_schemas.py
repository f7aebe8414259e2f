"""The schemas that editors read accept the shipped files and refuse what a command refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.documents import validator
from tests.tables import load_yaml, with_cases
from tools.schemas import schemas


@pytest.mark.parametrize(("name", "folder"), [("catalogue", "catalogs"), ("device_profile", "device_profiles")])
def test_every_shipped_file_is_valid(name: str, folder: str, project: Path) -> None:
    files = [file for file in (project / folder).glob("*.yaml") if file.name != "cores.yaml"]
    assert len(files) > 10
    for file in files:
        assert list(validator(name).iter_errors(load_yaml(file))) == [], file.name


@with_cases
def test_a_mistake_is_marked(name: str, document: dict[str, Any], message: str) -> None:
    assert any(message in error.message for error in validator(name).iter_errors(document))


def test_every_schema_is_named_in_the_documentation(project: Path) -> None:
    page = project / "docs" / "reference" / "json.md"
    named = re.findall(r"`(\w+\.schema\.json)`", page.read_text(encoding="utf-8"))
    assert sorted(named) == sorted(schemas())


def test_every_entry_has_a_description_without_markup() -> None:
    parts = [json.loads(text) for text in schemas().values()]
    described = 0
    while parts:
        part = parts.pop()
        entries = part.get("properties", {})
        assert [name for name, entry in entries.items() if not re.match(r"[^`]+$", entry.get("description", ""))] == []
        described += len(entries)
        parts += [*entries.values(), *part.get("$defs", {}).values(), *([part["items"]] if "items" in part else [])]
    assert described > 500
