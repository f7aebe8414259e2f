"""The parts of a question are found and checked, and nothing is spent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from advisor.core.errors import UsageError, install_extra
from advisor.engine.question import resolve
from advisor.engine.space.resolved import resolve_parts


def test_a_question_is_resolved_without_spending_anything(tmp_path: Path) -> None:
    said: list[str] = []
    request = resolve({"candidates": ["squeezenet_1.1_227"], "compressions": ["int8"], "out": str(tmp_path / "runs")})
    found = resolve_parts(request, said.append)
    assert [card.name for card in found.cards] == ["squeezenet_1.1_227"]
    assert list(found.recipes) == ["float32", "int8"]
    assert found.images is None
    assert not (tmp_path / "runs").exists()


def test_an_unknown_candidate_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"squeezenet_1\.1_22.*squeezenet_1\.1_227"):
        resolve_parts(resolve({"candidates": ["squeezenet_1.1_22"]}), lambda _: None)


@pytest.mark.parametrize("task", ["object-detection", "object-counting"])
def test_objects_without_the_package_that_scores_boxes_name_the_extra(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pycocotools", None)
    with pytest.raises(UsageError, match="pycocotools, which is not installed") as raised:
        resolve_parts(resolve({"task": task, "data": str(tmp_path)}), lambda _: None)
    assert raised.value.hint == install_extra("detection")
