"""``advisor reevaluate`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.engine.history.reevaluation.changes import host_manifest
from tests.cli.conftest import Advisor, Said
from tests.documents import problems
from tests.predictor import REQUEST, own_profile, rows
from tests.run_folders import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    own_profile(tmp_path / "devices")
    return write_run(tmp_path / "runs", rows(), request=REQUEST, manifest=host_manifest({})).path


@pytest.fixture
def again(advisor: Advisor) -> Advisor:
    def call(*arguments: str, **environment: str) -> Said:
        return advisor("reevaluate", *arguments, **environment)

    return call


def test_a_device_that_changes_the_pick_ends_with_four_and_the_reason(again: Advisor, run: Path) -> None:
    said = again("runs/latest", "--device", "raspberry-pi-4")
    assert said.code == 4, said.err
    assert "The pick changed from inception_v3_299 float32" in said.out
    assert "breaks the budget: p90 latency" in said.out
    assert "2 answers: 1 changed" in said.out


def test_nothing_changed_ends_with_zero(again: Advisor, run: Path) -> None:
    said = again("runs/latest")
    assert said.code == 0, said.err
    assert "nothing changed since" in said.out


def test_json_names_the_new_run_and_its_report_is_there(again: Advisor, run: Path, tmp_path: Path) -> None:
    said = again("--all", "--profiles", "devices", "--format", "json")
    assert said.code == 4, said.err
    document = json.loads(said.out)
    assert problems("reevaluation", document) == []
    assert document["changed"] == 1
    (changed,) = [row for row in document["results"] if row["changed"]]
    assert changed["device"] == "our-kiosk"
    assert changed["causes"] == ["the device our-kiosk was added"]
    assert changed["comparison"]["outcome"] == "changed"
    assert json.loads((Path(changed["new_run"]) / "recommendation.json").read_text())["pick"]


def test_markdown_is_fit_for_an_issue(again: Advisor, run: Path) -> None:
    said = again("--all", "--profiles", "devices", "--format", "markdown")
    assert said.code == 4, said.err
    assert said.out.startswith("## advisor: 2 answers: 1 changed")


def test_a_re_evaluated_run_is_reported_like_any_other(again: Advisor, advisor: Advisor, run: Path) -> None:
    assert again("runs/latest", "--device", "raspberry-pi-4").code == 4
    said = advisor("report", "runs/latest", "--prefer", "accuracy")
    assert said.code == 0, said.err
    assert "predicted (raspberry-pi-4)" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name one run, or --all"),
        (("runs/latest", "--all"), "name one run, or --all"),
        (("nowhere",), "'nowhere' is not a run folder"),
        (("--all", "--runs", "nowhere"), "'nowhere' is not a folder"),
        (("--all", "--device", "galaxy-s42"), "unknown device 'galaxy-s42'"),
        (("--all", "--profiles", "nowhere"), "nowhere is not a folder of device profiles"),
        (("--all", "--format", "yaml"), "unknown 'yaml'"),
    ],
)
def test_wrong_use_is_refused(again: Advisor, run: Path, arguments: tuple[str, ...], words: str) -> None:
    said = again(*arguments)
    assert said.code == 2
    assert words in said.err
    assert "Traceback" not in said.err
