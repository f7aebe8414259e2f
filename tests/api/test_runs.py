"""``search`` and ``plan``: every argument reaches the request; what contradicts is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from advisor.api import plan, search
from advisor.core.errors import UsageError
from advisor.engine import question
from advisor.engine.question import resolve
from advisor.store import RunFolder

OPTIONS = [name for name in inspect.signature(plan).parameters if name != "request"]


class Resolved(Exception):
    """Ends the call where the options are resolved."""


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What reaches ``resolve``; the call ends there."""
    seen: dict[str, Any] = {}

    def note(options: Mapping[str, Any], file: Path | None = None) -> NoReturn:
        seen.update(options=dict(options), file=file)
        raise Resolved

    monkeypatch.setattr(question, "resolve", note)
    return seen


@pytest.mark.parametrize("function", [search, plan], ids=["search", "plan"])
def test_every_argument_reaches_the_request_under_its_name(
    function: Callable[..., object], resolved: dict[str, Any]
) -> None:
    given = {name: f"value of {name}" for name in OPTIONS}
    with pytest.raises(Resolved):
        function(**given, request="request.yaml")
    assert resolved == {"options": given, "file": Path("request.yaml")}


@pytest.mark.parametrize("function", [search, plan], ids=["search", "plan"])
def test_an_argument_that_is_left_out_leaves_the_request_file_its_say(
    function: Callable[..., object], resolved: dict[str, Any]
) -> None:
    with pytest.raises(Resolved):
        function()
    assert resolved == {"options": dict.fromkeys(OPTIONS), "file": None}


@pytest.mark.parametrize("function", [search, plan], ids=["search", "plan"])
def test_a_value_without_its_unit_is_refused(function: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match="'50' has no unit"):
        function(budget="50")


def test_to_extend_needs_a_run() -> None:
    with pytest.raises(UsageError) as caught:
        search(extend="30min")
    assert "--resume" in caught.value.message
    assert "--resume runs/latest" in caught.value.hint


def test_a_resumed_run_keeps_its_question(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "run")
    run.write_request(resolve({"budget": "50ms", "out": str(tmp_path)}).written)
    with pytest.raises(UsageError, match="--budget 50ms, not 30ms"):
        search(resume=run.path, budget="30ms")


def test_a_plan_answers_with_its_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    view = plan(candidates=["squeezenet_1.1_227"], compressions=["int8"], threads=[1])
    assert [each.configuration.compression for each in view.forecasts] == ["float32", "int8"]
