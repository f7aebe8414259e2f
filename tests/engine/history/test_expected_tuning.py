"""What a run of heads says of fine-tuning, and when it says nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.evaluation import Evaluation
from advisor.engine.history.expected_tuning import ExpectedTuning, expected_tuning
from advisor.engine.history.loaded_run import load_run
from advisor.reporting.files import recommendation
from advisor.reporting.markdown import render_markdown
from advisor.reporting.view import view_of
from tests.builders import evaluation
from tests.run_folders import images, write_run

CARD = "mobilenet_v2_1.0_224"
HEAD = evaluation(CARD, "int8", accuracy=80, latency=5)
TUNED = replace(HEAD, configuration=replace(HEAD.configuration, training="finetune_cached"))


def _expected(folder: Path, *rows: Evaluation) -> ExpectedTuning | None:
    dataset = images({"glass": 900, "paper": 900})
    return expected_tuning(load_run(write_run(folder, rows, dataset=dataset).path))


def test_a_run_of_heads_names_the_gain_the_time_and_a_command_that_works(tmp_path: Path) -> None:
    from advisor.engine.question import resolve

    found = _expected(tmp_path, HEAD)
    assert found is not None
    assert 0 < found.low < found.points < found.high
    assert found.seconds > 0
    options = found.command("runs/one").split()
    given = dict(zip(options[2::2], options[3::2], strict=True))
    assert given["--candidates"] == CARD
    asked = resolve({"data": "photos", "training": given["--training"].split(",")})
    assert asked.question.trainings == ("head", "finetune_cached")


def test_a_share_of_the_errors_that_the_head_leaves_is_stated(tmp_path: Path) -> None:
    found = _expected(tmp_path / "hard", HEAD)
    better = _expected(tmp_path / "easy", replace(HEAD, accuracy=replace(HEAD.accuracy, value=98.0)))  # type: ignore[type-var]
    assert found is not None
    assert better is not None
    assert better.high < 2
    assert (better.points, better.high) == (pytest.approx(found.points / 10), pytest.approx(found.high / 10))


@pytest.mark.parametrize(
    "rows",
    [
        (HEAD, replace(TUNED, accuracy=replace(HEAD.accuracy, value=60.0))),  # type: ignore[type-var]
        (TUNED,),
        (replace(HEAD, accuracy=replace(HEAD.accuracy, value=99.0)),),  # type: ignore[type-var]
        (evaluation("a card of no catalogue", "int8", accuracy=80),),
        (),
    ],
)
def test_nothing_is_said_where_it_was_tried_or_cannot_be(tmp_path: Path, rows: tuple[Evaluation, ...]) -> None:
    assert _expected(tmp_path, *rows) is None


def test_nothing_is_stated_of_few_images(tmp_path: Path) -> None:
    run = write_run(tmp_path, [HEAD], dataset=images({"glass": 200, "paper": 200}))
    assert expected_tuning(load_run(run.path)) is None


def test_page_and_document_for_programs_say_it(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, [HEAD], dataset=images({"glass": 900, "paper": 900})).path)
    view = view_of(run)
    assert view.tuning is not None
    assert view.tuning.command(view.folder) in render_markdown(view).replace("\\", "")
    assert recommendation(view)["fine_tuning"] == {
        **vars(view.tuning), "command": view.tuning.command(view.folder)
    }  # fmt: skip
