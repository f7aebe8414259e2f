"""``advisor report``, ``compare`` and ``reevaluate`` as a user types them, with their exit codes."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import ImageAnswers, Provenance, Quantity
from advisor.engine._history.changes import host_manifest
from tests.builders import evaluation, present
from tests.documents import problems
from tests.makers.commands import Advisor, ended, refused
from tests.predictor import REQUEST, own_profile, rows
from tests.run_folders import candidates, write_judged_detectors, write_run
from tests.tables import with_cases


def test_the_own_question_writes_the_run_s_report_and_one_document_for_programs(advisor: Advisor, run: Path) -> None:
    said = ended(advisor("report", "runs/latest"))
    assert "best int8" in said.out
    document = json.loads((run / "recommendation.json").read_text())
    assert document["pick"]["configuration"]["card"] == "best"
    assert (run / "report.html").is_file()
    said = ended(advisor("report", "runs/latest", "--json"))
    assert said.document == document
    assert "wrote" in said.err


def test_a_preference_is_printed_and_a_budget_written_where_asked(advisor: Advisor, run: Path, tmp_path: Path) -> None:
    said = ended(advisor("report", "runs/latest", "--prefer", "size"))
    reason = "small int8 on 1 thread (80.0 %, 9.00 ms, 1.0 MB) is the smallest candidate within the limits"
    assert reason in " ".join(said.out.split())
    assert not (run / "report.md").exists()
    assert "add --to DIR" in said.err
    ended(advisor("report", "runs/latest", "--budget", "10ms", "--prefer", "accuracy=1,latency=1", "--to", "out/here"))
    document = json.loads((tmp_path / "out" / "here" / "recommendation.json").read_text())
    assert document["budget"]["latency_ms"] == 10
    assert document["pick"]["configuration"]["card"] == "fast"


def test_images_are_left_out_where_asked(advisor: Advisor, tmp_path: Path) -> None:
    run = write_judged_detectors(tmp_path / "runs").path
    # The first screen shows the two images that the section has.
    for options, shown in (((), 4), (("--no-images",), 0)):
        ended(advisor("report", "runs/latest", *options))
        page = (run / "report.html").read_text()
        assert page.count("data:image/jpeg;base64,") == shown
        assert page.count("The image is left out.") == (0 if shown else 3)


def test_if_nothing_fits_it_ends_with_three_and_the_price(advisor: Advisor, run: Path) -> None:
    said = ended(advisor("report", "runs/latest", "--licence", "permissive", "--confidence", "95%"), 3)
    assert "licence permissive -> not stated admits" in said.out
    assert "Next: " not in said.out
    assert "the report of the run is unchanged; add --to DIR to write this one" in said.err


def test_report_files_are_replaced_only_by_force_and_a_run_s_own_never(advisor: Advisor, run: Path) -> None:
    question = ("report", "runs/latest", "--prefer", "size", "--to", "out")
    assert advisor(*question).code == 0
    refused(advisor(*question), "already contains recommendation.json", "--force")
    assert advisor(*question, "--force").code == 0
    refused(advisor("report", "runs/latest", "--prefer", "size", "--to", "runs/latest", "--force"), "is a run folder")


@with_cases
def test_wrong_use_is_refused(advisor: Advisor, run: Path, arguments: str, words: str) -> None:
    refused(advisor(*arguments.split()), words)


def test_the_next_command_keeps_the_other_limits(advisor: Advisor, tmp_path: Path) -> None:
    measured = Quantity(60.0, "%", Provenance.MEASURED, 55.0, 65.0, 0.95, 300)
    answers = [ImageAnswers(metrics={"top1": present(row.accuracy), "macro-f1": measured}) for row in candidates()]
    rows = [replace(row, answers=own) for row, own in zip(candidates(), answers, strict=True)]
    write_run(tmp_path / "runs", rows, request={"data": "photos", "min_accuracy": "80%,macro-f1=70%"})
    said = ended(advisor("report", "runs/latest"), 3)
    arguments = said.out.split("Next: limits that a file meets: \n  advisor ")[-1].split("\n\n")[0].split()
    assert arguments[2:] == ["--min-accuracy", "80%,macro-f1=60.0%"]
    assert advisor(*arguments).code == 0


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str, str]:
    """Names of a run, of an equal one, and of one whose pick became too slow."""
    slow = evaluation("best", "int8", accuracy=92, half_width=1, latency=60, size=6e6)
    changed = [slow, *candidates()[1:]]
    made = [write_run(tmp_path / "runs", rows, name=name) for name, rows in (("a", None), ("b", None), ("c", changed))]
    first, second, third = (f"runs/{run.path.name}" for run in made)
    return first, second, third


def test_equal_runs_end_with_zero(advisor: Advisor, runs: tuple[str, str, str]) -> None:
    assert "The pick did not change: best int8" in ended(advisor("compare", runs[0], runs[1])).out


@pytest.mark.parametrize("options", [("--format", "markdown"), ("--format", "json"), ("--json",)])
def test_a_changed_pick_ends_with_four(advisor: Advisor, runs: tuple[str, str, str], options: tuple[str, ...]) -> None:
    said = ended(advisor("compare", runs[0], runs[2], *options), 4)
    if "markdown" in options:
        assert "The pick changed from best int8" in said.out
    else:
        assert said.document["outcome"] == "changed"
        assert problems("comparison", said.document) == []


@pytest.fixture
def run_of_reevaluate(tmp_path: Path) -> Path:
    own_profile(tmp_path / "devices")
    return write_run(tmp_path / "runs", rows(), request=REQUEST, manifest=host_manifest({})).path


def test_nothing_changed_ends_with_zero(advisor: Advisor, run_of_reevaluate: Path) -> None:
    out = ended(advisor("reevaluate", "runs/latest")).out
    assert "on this machine: the answer stays, because nothing changed since the run\n" in out
    assert out.endswith("1 answer: 1 the same\n")


@with_cases
def test_a_run_without_a_result_ends_with_three(advisor: Advisor, tmp_path: Path, command: str) -> None:
    good = write_run(tmp_path / "runs", rows(), request=REQUEST, manifest=host_manifest({})).path
    early = write_run(tmp_path / "runs", [], request=REQUEST, manifest={"stopped": {"why": "time_limit"}}).path
    said = ended(advisor(*command.format(good=good, early=early).split()), 3)
    assert re.search("before (its|the) first result", said.out)


def test_a_device_that_changes_the_pick_ends_with_four_once(advisor: Advisor, run_of_reevaluate: Path) -> None:
    asked = ("--since-last", "--device", "raspberry-pi-4")
    said = ended(advisor("reevaluate", "runs/latest", *asked), 4)
    assert "The pick changed from inception_v3_299 float32" in said.out
    assert "breaks the budget: p90 latency" in said.out
    assert "on this machine" not in said.out
    assert "on raspberry-pi-4: the answer changed (" in " ".join(said.out.split())
    assert "1 answer: 1 changed" in said.out
    assert ended(advisor("reevaluate", "--all", *asked)).out == "no new answer\n"


def test_json_names_the_new_run_which_is_reported_like_any_other(advisor: Advisor, run_of_reevaluate: Path) -> None:
    said = ended(advisor("reevaluate", "--all", "--profiles", "devices", "--format", "json"), 4)
    document = said.document
    assert problems("reevaluation", document) == []
    assert document["changed"] == 1
    (changed,) = [row for row in document["results"] if row["changed"]]
    assert changed["device"] == "our-kiosk"
    assert changed["causes"] == ["the device our-kiosk was added"]
    assert changed["comparison"]["outcome"] == "changed"
    assert json.loads((run_of_reevaluate.parents[1] / changed["new_run"] / "recommendation.json").read_text())["pick"]
    said = ended(advisor("report", changed["new_run"], "--prefer", "accuracy"))
    assert "latency: predicted on our-kiosk" in said.out
