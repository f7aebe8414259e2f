from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation, Status
from advisor.engine.history.loaded_run import LoadedRun, load_run
from advisor.exporting.bundle import choices, choose
from tests.builders import evaluation
from tests.run_folders import candidates, write_run


def stored(tmp_path: Path, *more: Evaluation) -> LoadedRun:
    return load_run(write_run(tmp_path, [*candidates(), *more]).path)


def test_the_first_choice_is_the_pick_and_the_second_the_runner_up(tmp_path: Path) -> None:
    run = stored(tmp_path)
    assert [e.configuration.card for e in choices(run.decision)] == ["best", "fast", "small"]
    assert choose(run, None) == choose(run, "1") == run.decision.pick


def test_one_artefact_is_one_choice_on_its_best_threads(tmp_path: Path) -> None:
    run = stored(tmp_path, evaluation("fast", "int8", 2, accuracy=84, half_width=1, latency=3, size=5e6))
    assert [e.configuration.card for e in choices(run.decision)] == ["best", "fast", "small"]
    assert choose(run, "2").configuration.target.threads == 2


def test_a_key_chooses_what_is_not_on_the_front(tmp_path: Path) -> None:
    poor = evaluation("poor", accuracy=10, half_width=1, latency=40, size=9e6)
    assert choose(stored(tmp_path, poor), poor.configuration.key).configuration == poor.configuration


@pytest.mark.parametrize("number", ["0", "4"])
def test_a_number_that_is_none_is_refused(tmp_path: Path, number: str) -> None:
    with pytest.raises(UsageError, match="the numbers are 1 to 3"):
        choose(stored(tmp_path), number)


def test_a_misspelt_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'small/head/int8@host:cpux1'"):
        choose(stored(tmp_path), "smal/head/int8@host:cpux1")


def test_what_failed_has_nothing_to_ship(tmp_path: Path) -> None:
    failed = replace(evaluation("bad"), status=Status.FAILED, reason="converter crashed")
    with pytest.raises(UsageError, match="converter crashed"):
        choose(stored(tmp_path, failed), failed.configuration.key)
