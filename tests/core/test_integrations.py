"""What is registered is found and offers what its room asks for; a package of others adds a runtime."""

import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.api._answers import EXPERIMENT_LOGS, ExperimentLog
from advisor.cli import IntegrationCommand
from advisor.cli._groups import INTEGRATIONS
from advisor.core import EXECUTORS, TASKS, UsageError, _integrations as integrations, list_registered, load_integration
from advisor.devices import LocalRuntime, local_runtimes, runtime_of, show
from advisor.devices._connections.runtime_files import EXPORTERS, Exporter
from advisor.devices._profiles.runtimes import RUNTIMES
from advisor.engine._execution import ExecutorSource
from advisor.measurement._microcontrollers import COMPILERS, INTERPRETERS, Compiler, Interpreter
from advisor.reporting._bundle.shipping import PARTS, BundlePart
from tests.builders import must_fail
from tests.tables import read_table, with_cases

ASKED = {
    EXECUTORS: ExecutorSource, EXPERIMENT_LOGS: ExperimentLog, PARTS: BundlePart, RUNTIMES: LocalRuntime,
    EXPORTERS: Exporter, INTERPRETERS: Interpreter, COMPILERS: Compiler, INTEGRATIONS: IntegrationCommand,
}  # fmt: skip
"""What each group offers."""

TOY = read_table(__file__, "texts.yaml")["toy"]


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Nothing is remembered of what was registered, before and after."""
    remembered: tuple[Any, ...] = (integrations._entry_points, load_integration, local_runtimes)
    for each in remembered:
        each.cache_clear()
    yield
    for each in remembered:
        each.cache_clear()


def test_the_installed_metadata_are_those_of_the_project(project: Path) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    for group, names in declared.items():
        found = {name: each.value for name, each in integrations._entry_points(group).items()}
        assert found.items() >= names.items(), "the metadata are older: pip install -e . --no-deps"


@pytest.mark.parametrize("group", ASKED)
def test_what_is_registered_offers_what_its_room_asks_for(group: str) -> None:
    members = {*vars(ASKED[group]), *ASKED[group].__annotations__}
    for name in list_registered(group):
        offered = load_integration(group, name)
        assert not {member for member in members if not member.startswith("_")} - set(dir(offered)), name


@with_cases
def test_metadata_of_another_version_are_told_with_a_hint(
    points: list[tuple[str, str]], words: str, forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [importlib.metadata.EntryPoint(name, value, RUNTIMES) for name, value in points]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_group: found)
    assert "pip install" in must_fail(UsageError, words, runtime_of, "chromium").hint


def install_toy(folder: Path, group: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = folder / "toy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\ntoy = toy_module:RUNTIME\n")
    (folder / "toy_module.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "toy_module", raising=False)


@pytest.mark.parametrize("group", [RUNTIMES, "advisor.tasks"])
@with_cases
def test_a_package_for_older_paths_is_told_what_moved(
    forgotten: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, module: str, name: str, room: str
) -> None:
    install_toy(tmp_path, group, f"from advisor.{module} import {name}", monkeypatch)
    with pytest.raises(UsageError, match=rf"package of 'toy_module:RUNTIME' imports from advisor\.{module}") as refused:
        _ = runtime_of("toy") if group == RUNTIMES else type(TASKS)()["toy"]
    assert f"from advisor.{room} import NAME" in refused.value.hint


def test_a_package_adds_a_runtime_by_a_line(forgotten: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_toy(tmp_path, RUNTIMES, TOY, monkeypatch)
    assert list_registered(RUNTIMES) == ("chromium", "executorch", "onnxruntime", "toy")
    assert show("host:toy").name == "host:toy"
