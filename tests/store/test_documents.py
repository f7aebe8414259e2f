"""An entry of a wrong type is left out and named; the other entries of the document are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.store.jsonfile import KINDS, read_document


def written(folder: Path, **entries: object) -> Path:
    path = folder / "manifest.json"
    path.write_text(json.dumps({"schema_version": 1, **entries}), encoding="utf-8")
    return path


def test_a_whole_document_has_no_problem(tmp_path: Path) -> None:
    found = read_document(written(tmp_path, configurations=2, versions={"numpy": "2.4.6"}, new_entry=[{}]))
    assert found.problems == ()
    assert found.entries == {
        "schema_version": 1, "configurations": 2, "versions": {"numpy": "2.4.6"}, "new_entry": [{}],
    }  # fmt: skip


@pytest.mark.parametrize("wrong", [None, True, "two", [2], {"a": 2}, 2.5])
def test_an_entry_of_a_wrong_type_is_left_out_and_named(tmp_path: Path, wrong: object) -> None:
    found = read_document(written(tmp_path, configurations=wrong, advisor="0.1.0"))
    assert found.problems == ("is damaged (configurations is of a wrong type): this entry is ignored",)
    assert found.entries == {"schema_version": 1, "advisor": "0.1.0"}


def test_the_place_of_damage_is_named(tmp_path: Path) -> None:
    found = read_document(written(tmp_path, versions={"numpy": "\0"}))
    assert found.problems == ("is damaged (versions.numpy: a NUL character): its content is ignored",)
    assert found.entries == {}


def test_another_schema_is_named(tmp_path: Path) -> None:
    assert read_document(written(tmp_path, schema_version=2)).problems[0].startswith("is of schema 2, not 1")


@pytest.mark.parametrize("name", KINDS)
def test_a_document_that_is_missing_is_empty(tmp_path: Path, name: str) -> None:
    assert read_document(tmp_path / name).entries == {}
