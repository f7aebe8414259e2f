from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from advisor.api import State, doctor
from advisor.cli.main import app
from advisor.core.errors import ExitCode


@pytest.mark.integration
def test_this_machine_is_ready() -> None:
    states = {check.name: check.state for check in doctor()}
    assert states["python"] is State.OK
    assert states["ai-edge-litert"] is State.OK
    assert states["child process"] is State.OK


def test_a_cache_that_cannot_be_written_is_named_with_its_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    cache = next(check for check in doctor(run_model=False) if check.name == "cache")
    assert cache.state is State.FAILED
    assert "ADVISOR_CACHE_DIR" in cache.hint


@pytest.mark.integration
def test_a_machine_that_is_not_ready_is_no_fault_of_advisors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    ended = CliRunner().invoke(app, ["doctor"])
    assert "FAILED" in ended.stdout
    assert ended.exit_code == ExitCode.USAGE


def test_no_weights_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    weights = next(check for check in doctor(run_model=False) if check.name == "weights")
    assert weights.state is State.WARNING
    assert weights.found.startswith("0 of ")
