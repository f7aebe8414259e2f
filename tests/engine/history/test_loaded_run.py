"""A stored run is decided anew, with its own question or another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.errors import UsageError
from advisor.core.evaluation import Configuration, Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.engine.history.loaded_run import load_run, unfinished_search
from tests.builders import evaluation, present
from tests.run_folders import candidates, lines, write_run


def test_its_own_question_gives_its_own_answer(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    decision = load_run(run.path).decision
    assert present(decision.pick).configuration.card == "best"


def test_another_budget_gives_another_answer(tmp_path: Path) -> None:
    stored = load_run(write_run(tmp_path).path, {"budget": "10ms", "size_budget": None})
    assert stored.question.limits.latency_ms == 10
    assert present(stored.decision.pick).configuration.card == "fast"


def test_a_preference_is_held(tmp_path: Path) -> None:
    stored = load_run(write_run(tmp_path).path, {"prefer": "size"})
    assert present(stored.decision.pick).configuration.card == "small"


def test_a_limit_without_unit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no unit"):
        load_run(write_run(tmp_path).path, {"budget": "10"})


def test_a_request_of_another_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    with (run.path / "request.yaml").open("a") as file:
        file.write("horizon: 3\n")
    with pytest.raises(UsageError, match="unknown option 'horizon'") as caught:
        load_run(run.path)
    assert "manifest.json" in caught.value.hint


def test_a_half_written_run_is_decided_over_what_is_there(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    first = lines(run)[0]
    run.evaluations_file.write_text(first + "\n" + first[:50], encoding="utf-8")
    (run.path / "manifest.json").unlink()
    stored = load_run(run.path)
    assert [e.configuration.card for e in stored.evaluations] == ["best"]
    assert stored.manifest == {}


@pytest.mark.parametrize("damage", ["missing", "damaged", "of other pictures"])
def test_without_its_answers_a_tie_is_told_from_intervals(tmp_path: Path, damage: str) -> None:
    answers = ImageAnswers(file="answers/a.npy")
    one = replace(evaluation("one", accuracy=92, latency=20), answers=answers)
    run = write_run(tmp_path, [one, replace(evaluation("two", accuracy=91, latency=2), answers=answers)])
    rows = [{"class": "a"}, {"class": "b"}]
    run.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "train": []})
    run.keep_answers("a", [0, 1, 1] if damage == "of other pictures" else [0, 1])
    if damage == "missing":
        (run.path / "answers" / "a.npy").unlink()
    if damage == "damaged":
        (run.path / "answers" / "a.npy").write_bytes(b"\x93NUMPY")
    decision = load_run(run.path).decision
    assert present(decision.pick).configuration.card == "two"


def test_equal_answers_tie_whatever_the_intervals(tmp_path: Path) -> None:
    answers = ImageAnswers(file="answers/a.npy")
    one = replace(evaluation("one", accuracy=92, half_width=0.1, latency=20), answers=answers)
    two = replace(evaluation("two", accuracy=91, half_width=0.1, latency=2), answers=answers)
    run = write_run(tmp_path, [one, two])
    run.write_json("split.json", {"classes": ["a", "b"], "validation": [{"class": "a"}] * 50, "train": []})
    run.keep_answers("a", np.zeros(50, np.int32).tolist())
    decision = load_run(run.path).decision
    assert present(decision.pick).configuration.card == "two"
    assert [e.configuration.card for e in decision.ties] == ["one"]


@pytest.mark.parametrize("running", [True, False])
def test_a_search_without_an_end_says_how_far_it_came(tmp_path: Path, running: bool) -> None:
    run = load_run(write_run(tmp_path, manifest={"configurations": 100}).path)
    unfinished = present(unfinished_search(run, running))
    assert (unfinished.evaluated, unfinished.configurations, unfinished.running) == (3, 100, running)
    state = "Search is running" if running else "The search has not ended"
    said = unfinished.sentence("runs/latest")
    assert said.startswith(f"{state}, 3 of 100 configurations have results.")
    assert said.endswith("continue it: advisor search --resume runs/latest")


def test_of_several_devices_each_configuration_counts_once(tmp_path: Path) -> None:
    rows = [replace(row, configuration=on(row, device)) for row in candidates() for device in ("host", "pixel-8")]
    unfinished = unfinished_search(load_run(write_run(tmp_path, rows, manifest={"configurations": 4}).path), True)
    assert unfinished is not None
    assert unfinished.evaluated == 3


@pytest.mark.parametrize("manifest", [{"configurations": 100, "stopped": {"why": "interrupt"}}, {}])
def test_a_search_with_an_end_or_without_a_plan_is_not_called_unfinished(
    tmp_path: Path, manifest: dict[str, object]
) -> None:
    assert unfinished_search(load_run(write_run(tmp_path, manifest=manifest).path), False) is None


def on(row: Evaluation, device: str) -> Configuration:
    """Return the configuration of an evaluation on another device."""
    return replace(row.configuration, target=replace(row.configuration.target, device=device))
