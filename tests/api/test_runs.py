"""``search``, ``plan`` and the functions on a finished run: arguments reach the request, contradictions are refused."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from advisor.api import Run, check_run, compare, export, exportable, plan, reevaluate, report, search
from advisor.core import Evaluation, Status, UsageError
from advisor.engine import _question as question
from advisor.engine._history.changes import host_manifest
from advisor.engine._question.demonstration import choose_demo_limit
from advisor.engine._run import SearchResult
from advisor.engine._scheduling.stop import Stop, StopKind
from advisor.reporting import _files as files
from advisor.store import RunFolder
from tests.builders import evaluation, must_fail
from tests.run_folders import candidates, write_run
from tests.tables import with_cases

OPTIONS = [name for name in inspect.signature(plan).parameters if name != "request"]


def test_every_evaluation_is_a_row_with_its_figures_or_its_reason_and_its_place_in_the_answer(tmp_path: Path) -> None:
    found = Run(write_run(tmp_path).path).to_frame().set_index("card")
    assert found["role"].to_dict() == {"best": "pick", "fast": "front", "small": "front"}
    assert found.loc["best", ["top1_percent", "latency_median_ms", "size_bytes"]].tolist() == [92, 20, 6_000_000]
    assert found["latency_provenance"].unique().tolist() == ["measured"]
    configuration = evaluation("broken").configuration
    failed = Evaluation(configuration, Status.FAILED, reason="it cannot be converted", stage="convert")
    run = Run(write_run(tmp_path, [*candidates(), failed]).path)
    row = run.to_frame().set_index("card").loc["broken"]
    assert (row["status"], row["stage"], row["reason"]) == ("failed", "convert", "it cannot be converted")
    assert row.isna()[["top1_percent", "latency_p90_ms", "size_bytes"]].all()
    assert (row["role"], row["meets_budget"]) == ("", False)


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
def test_arguments_reach_a_request_or_keep_the_file(function: Callable[..., object], resolved: dict[str, Any]) -> None:
    given = {name: f"value of {name}" for name in OPTIONS}
    must_fail(Resolved, "", function, **given, request="request.yaml")
    assert resolved == {"options": given, "file": Path("request.yaml")}
    must_fail(Resolved, "", function)
    assert resolved == {"options": dict.fromkeys(OPTIONS), "file": None}


def test_to_extend_needs_a_run() -> None:
    assert "--resume runs/latest" in must_fail(UsageError, "--resume", search, extend="30min").hint


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose pick under 50 ms is ``best``; ``fast`` and ``small`` are the alternatives."""
    return write_run(tmp_path / "runs").path


def test_a_report_is_written_where_nothing_changed_or_a_folder_is_given(run: Path, tmp_path: Path) -> None:
    assert {path.parent for path in report(run).files} == {run}
    assert report(run, budget="5ms").files == ()
    assert {path.parent for path in report(run, budget="5ms", to=tmp_path / "other").files} == {tmp_path / "other"}
    must_fail(UsageError, "", report, run, to=tmp_path / "other")
    assert report(run, to=tmp_path / "other", force=True).files


def test_a_run_that_is_whole_has_no_problems_and_one_that_is_not_names_them(run: Path) -> None:
    assert check_run(run, artefacts=True) == ()
    next((run / "artifacts").iterdir()).write_bytes(b"other")
    assert check_run(run) == ()
    (problem,) = check_run(run, artefacts=True)
    assert "has changed since it was measured" in problem


@pytest.mark.integration
@pytest.mark.parametrize("cores", [1, 2])
def test_each_of_several_runs_gets_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(files, "usable_cores", lambda: cores)
    for name in ("first", "second"):
        write_run(tmp_path, [evaluation("mobilenet_v2_1.0_224")], manifest=host_manifest({}), name=name)
    made = [found.run for found in reevaluate(runs=tmp_path, device=["raspberry-pi-4"]) if found.run]
    assert len(made) == 2
    assert [(check_run(run), (run / "report.html").is_file()) for run in made] == [((), True)] * 2


@pytest.mark.integration
def test_a_report_that_is_not_written_elsewhere_is_at_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "usable_cores", lambda: 2)
    monkeypatch.setattr(files, "WRITE_AT", "advisor.reporting._files:no_such_function")
    write_run(tmp_path, [evaluation("mobilenet_v2_1.0_224")], manifest=host_manifest({}))
    here, there = reevaluate(runs=tmp_path, device=["raspberry-pi-4"])
    assert here.error == ""
    assert there.error.startswith("its report could not be written: ")
    assert there.run is not None


@pytest.mark.parametrize(
    "function",
    [report, exportable, check_run, reevaluate, lambda run: compare(run, run), lambda run: export(run, "bundle")],
    ids=["report", "exportable", "check_run", "reevaluate", "compare", "export"],
)
def test_a_folder_that_is_no_run_is_refused(function: Callable[[Path], object], tmp_path: Path) -> None:
    must_fail(UsageError, "is not a run folder", function, tmp_path / "nowhere")


@with_cases
def test_a_demonstration_takes_longer_where_drawing_waited(wall_s: float, cpu_s: float, limit: str) -> None:
    assert choose_demo_limit(wall_s, cpu_s) == limit


@pytest.mark.parametrize(("why", "diagnosed"), [("complete", 1), ("time_limit", 0)])
def test_a_search_that_its_time_limit_ended_is_not_diagnosed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, diagnosed: int
) -> None:
    run, asked = write_run(tmp_path), list[RunFolder]()
    monkeypatch.setattr("advisor.engine._history.diagnoses.diagnose_run", asked.append)
    monkeypatch.setattr("advisor.engine._run.run_search", lambda *_: SearchResult(run, Stop(StopKind(why), "stopped")))
    assert search(quiet=True).report.is_file()
    assert len(asked) == diagnosed


def test_a_run_is_equal_to_itself_and_its_report_is_one_line_and_a_table(run: Path) -> None:
    assert not compare(run, run).recommends_otherwise
    found = report(run)
    assert repr(found).startswith("Report(")
    for text in (repr(found), repr(found.decision)):
        assert len(text.splitlines()) == 1
        assert len(text) < 1000
    assert found.to_frame().equals(Run(str(run)).to_frame())
