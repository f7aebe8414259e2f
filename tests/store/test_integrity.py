"""Damage to a run folder is named, and everything that is whole is still read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.core.evaluation_facts import ImageAnswers
from advisor.store import RunFolder
from advisor.store.integrity import artefact_problem, integrity_problems
from tests.run_folders import lines, write_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return write_run(tmp_path / "runs")


def texts(run: RunFolder) -> list[str]:
    return [str(problem) for problem in integrity_problems(run)]


def test_a_whole_run_has_no_problem(run: RunFolder) -> None:
    assert integrity_problems(run) == ()


def test_an_artefact_that_is_gone_is_named(run: RunFolder) -> None:
    (run.artefacts / "best-head-int8.tflite").unlink()
    assert texts(run) == ["artifacts/best-head-int8.tflite is missing: it cannot be shipped or measured again"]


def test_an_artefact_that_was_changed_is_named(run: RunFolder) -> None:
    (run.artefacts / "best-head-int8.tflite").write_bytes(b"other")
    assert "artifacts/best-head-int8.tflite has changed since it was measured" in texts(run)[0]


def test_an_artefact_outside_the_run_is_not_read(run: RunFolder) -> None:
    strayed = replace(run.evaluations()[0], artefact="../../secret")
    problem = artefact_problem(run, strayed)
    assert problem is not None
    assert "outside the run folder" in problem.what


def test_a_torn_line_costs_itself_alone(run: RunFolder) -> None:
    kept = lines(run)
    run.evaluations_file.write_text(
        "\n".join([kept[0], '{"configuration": {"card"', "[]", *kept[1:]]), encoding="utf-8"
    )
    assert texts(run) == ["evaluations.jsonl has 2 unreadable lines (2, 3): ignored"]
    assert len(run.evaluations()) == 3


@pytest.mark.parametrize("content", ["{half", "[]", '{"schema_version": 99}'])
def test_a_damaged_document_is_named(run: RunFolder, content: str) -> None:
    (run.path / "manifest.json").write_text(content)
    assert [problem.file for problem in integrity_problems(run)] == ["manifest.json"]


def test_a_run_without_evaluations_says_so(run: RunFolder) -> None:
    run.evaluations_file.unlink()
    assert texts(run) == ["evaluations.jsonl is missing: nothing was evaluated"]


def test_answers_that_are_gone_are_named(tmp_path: Path) -> None:
    from tests.builders import evaluation

    run = write_run(tmp_path, [replace(evaluation(), answers=ImageAnswers(file="answers/x.npy"))])
    assert "answers/x.npy is missing" in texts(run)[0]


@pytest.mark.parametrize("content", ["", "- a list", "budget: [", "schema_version: new", "\x00"])
def test_a_damaged_request_is_refused_by_name(run: RunFolder, content: str) -> None:
    (run.path / "request.yaml").write_text(content)
    with pytest.raises(UsageError, match=r"request\.yaml cannot be read"):
        RunFolder.open(run.path)
