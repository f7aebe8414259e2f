"""Which run came from which."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.engine.history.loaded_run import load_run
from advisor.engine.history.reevaluation.lineage import (
    Child,
    Origin,
    latest_descendant,
    read_origin,
    read_origins,
    write_child,
)
from advisor.store import RunFolder
from tests.run_folders import candidates, write_run


@pytest.fixture
def parent(tmp_path: Path) -> RunFolder:
    return write_run(tmp_path, manifest={"updated": "2026-01-01T00:00:00+00:00"})


def _child(parent: RunFolder, device: str = "galaxy-s24", **more: object) -> RunFolder:
    run = load_run(parent.path)
    child = Child(run.evaluations[:2], device, "e" * 64, {"devices": {device: "f"}}, **more)  # type: ignore[arg-type]
    return write_child(run, read_origin(parent.path), child)


def test_a_search_is_its_own_root(parent: RunFolder) -> None:
    name = parent.path.name
    assert read_origin(parent.path) == Origin(parent.path, "", name, "host", "", "2026-01-01T00:00:00+00:00")


def test_a_child_names_its_parent_and_its_root(parent: RunFolder) -> None:
    child = _child(parent)
    grandchild = _child(child)
    origin = read_origin(grandchild.path)
    assert (origin.parent, origin.root) == (child.path.name, parent.path.name)
    assert (origin.device, origin.environment) == ("galaxy-s24", "e" * 64)


def test_a_child_asks_the_parent_s_question_of_its_device(parent: RunFolder) -> None:
    asked, now = load_run(parent.path).question, load_run(_child(parent).path).question
    assert now.devices == ("galaxy-s24",)
    assert now.limits == asked.limits
    assert load_run(_child(parent, "host").path).question == asked


def test_a_child_shares_the_files_of_its_evaluations_alone(parent: RunFolder) -> None:
    child = _child(parent)
    kept, left_out = candidates()[:2], candidates()[2]
    names = {path.name for path in child.artefacts.iterdir()}
    assert len(names) == len(kept)
    assert not any(left_out.configuration.card in name for name in names)


def test_new_answers_of_a_child_are_written(parent: RunFolder) -> None:
    child = _child(parent, answers={"answers/best.npy": [0, 1]})
    assert (child.path / "answers" / "best.npy").is_file()


def test_entries_of_the_manifest_replace_the_parent_s(parent: RunFolder) -> None:
    manifest = load_run(_child(parent).path).manifest
    assert manifest["devices"] == {"galaxy-s24": "f"}
    assert manifest["versions"] == load_run(parent.path).manifest["versions"]


def test_origins_come_oldest_first_and_incomplete_runs_are_left_out(parent: RunFolder) -> None:
    child = _child(parent)
    killed = _child(parent)
    (killed.path / "request.yaml").unlink()
    origins = read_origins(parent.path.parent)
    assert [origin.path.name for origin in origins] == [parent.path.name, child.path.name]


def test_the_latest_descendant_for_a_device_is_the_last_of_the_same_root(parent: RunFolder) -> None:
    _child(parent)
    last = _child(parent)
    known = read_origins(parent.path.parent)
    found = latest_descendant(parent.path.name, "galaxy-s24", known)
    assert found is not None
    assert found.path.name == last.path.name
    assert latest_descendant(parent.path.name, "host", known) == known[0]
    assert latest_descendant("another", "host", known) is None
