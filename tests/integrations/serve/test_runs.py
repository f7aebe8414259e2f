"""The states of runs, and which folders are runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import TimeSummary, TimingFacts, UsageError
from advisor.engine import Snapshot
from advisor.engine._remaining import write_snapshot
from advisor.reporting import Runs, RunView, print_runs, write_all
from advisor.reporting._run_rows import RunRow, RunState, figures, map_columns
from advisor.store import cache_root
from tests.builders import evaluation, must_fail, present
from tests.core.test_timings import timed
from tests.integrations.serve.shown import ENDED
from tests.makers.commands import called, ended
from tests.run_folders import with_artefact, write_run
from tests.tables import with_cases
from tests.zones import zone


def test_the_command_lists_runs_with_their_picks(runs: Path, tmp_path: Path) -> None:
    run = write_run(runs, manifest=ENDED)
    write_all(RunView.load(run), run.path)
    write_run(runs, [], name="stopped")
    said = ended(called(("runs",), tmp_path, {**os.environ, "COLUMNS": "120"}))
    row = next(line for line in said.out.splitlines() if run.path.name in line)
    assert re.split(r" {2,}", row.strip())[1:] == ["finished", "best int8", "92.0 %", "20.0 ms", "6.0 MB"]
    said = ended(called(("runs", "--json", "--filter", "state=finished"), tmp_path, dict(os.environ)))
    (one,) = said.document["runs"]
    assert (one["run"], one["pick"], one["accuracy_percent"]) == (run.path.name, "best int8", 92.0)
    (tmp_path / "empty").mkdir()
    assert "There are no runs." in ended(called(("runs", "empty"), tmp_path, dict(os.environ))).out
    assert "'nowhere' is not a folder" in ended(called(("runs", "nowhere"), tmp_path, dict(os.environ)), 2).err


def test_a_narrow_terminal_shows_whole_names_and_a_wide_one_metrics_and_devices(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(runs, manifest=ENDED, name="a-name-of-many-words-in-all")
    monkeypatch.setenv("COLUMNS", "80")
    print_runs(Runs(runs).rows())
    said = capsys.readouterr().out
    assert [name in said for name in (run.path.name, "accuracy", "latency")] == [True, True, False]
    write_all(RunView.load(run), run.path)
    monkeypatch.setenv("COLUMNS", "180")
    print_runs(Runs(runs).rows())
    assert re.search(r"best int8 +92\.0 % +Top-1 +20\.0 ms +host +", capsys.readouterr().out)


def test_the_latency_of_an_answer_may_be_of_all_timings_of_a_graph(runs: Path) -> None:
    rows = []
    for training, ms in (("head", 10.0), ("finetune_cached", 20.0)):
        rows.append(replace(timed(training, ms), timing=TimingFacts(wall_ms=TimeSummary(ms, ms * 1.1, ms, 0.1))))
    run = write_run(runs, rows, manifest=ENDED)
    write_all(RunView.load(run), run.path)
    (row,) = Runs(runs).rows()
    assert (row.state, present(present(row.pick).latency).value) == (RunState.FINISHED, 15.0)


def test_the_time_of_the_last_result_names_its_zone(runs: Path) -> None:
    run = write_run(runs)
    os.utime(run.evaluations_file, (0, 0))
    with zone("CET-1"):
        assert Runs(runs).row(run.path.name).changed == "1970-01-01 01:00:00 CET"


@with_cases
def test_the_metric_is_that_of_the_question(runs: Path, asked: dict[str, str], metric: str) -> None:
    run = write_run(runs, request={"data": "photos", **asked})
    assert Runs(runs).row(run.path.name).metric == metric


@with_cases
def test_a_run_without_an_end_was_interrupted(runs: Path, stopped: dict[str, object], why: str) -> None:
    row = Runs(runs).row(write_run(runs, manifest={"configurations": 5, **stopped}).path.name)
    assert (row.state, row.evaluated, row.configurations, row.pick, row.why) == (RunState.INTERRUPTED, 3, 5, None, why)


def test_a_run_is_read_while_it_is_written(runs: Path) -> None:
    run = write_run(runs, [], manifest={"configurations": 50})
    held, found, seen = run.hold(), Runs(runs), [0]

    def write() -> None:
        for number in range(50):
            write_snapshot(run, Snapshot("timing", number, 50, 9.0, 0.5))
            run.append(with_artefact(run, evaluation(f"card{number}")))
            run.write_json("manifest.json", {"configurations": 50})

    write_snapshot(run, Snapshot("starting"))
    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        row = found.row(run.path.name)
        assert (row.state, row.why, row.configurations) == (RunState.RUNNING, "", 50)
        assert row.snapshot
        seen.append(row.evaluated)
    assert seen == sorted(seen)
    assert found.row(run.path.name).evaluated == 50
    held.release()


@pytest.mark.usefixtures("starts_processes")
def test_a_killed_search_was_interrupted_while_it_worked(runs: Path) -> None:
    run = write_run(runs, manifest={"configurations": 5})
    write_snapshot(run, Snapshot("compressing best to int8", 3, 5, 60.0, 0.5))
    program = "import sys, pathlib; from advisor.store import RunFolder; run = RunFolder(pathlib.Path(sys.argv[1]));"
    command = [sys.executable, "-c", f"{program} held = run.hold(); print('held', flush=True); input()", str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as search:
        assert search.stdout
        search.stdout.readline()
        row = Runs(runs).row(run.path.name)
        assert (row.state, row.snapshot and row.snapshot.left) == (RunState.RUNNING, "about 1 min 00 s left")
        search.kill()
    row = Runs(runs).row(run.path.name)
    assert (row.state, row.snapshot) == (RunState.INTERRUPTED, None)
    assert row.why == "its process ended before the search did, while compressing best to int8"


def test_a_run_that_has_just_begun_is_running(runs: Path) -> None:
    run = write_run(runs)
    (run.path / "request.yaml").unlink()
    held = run.hold()
    assert Runs(runs).row(run.path.name).state is RunState.RUNNING
    held.release()


@with_cases
def test_a_damaged_run_says_why(runs: Path, file: str, content: str, words: str) -> None:
    run = write_run(runs, manifest=ENDED)
    (run.path / file).write_text(content, encoding="utf-8")
    row = Runs(runs).row(run.path.name)
    assert row.state is RunState.DAMAGED
    assert words in row.why


def test_links_and_other_folders_are_no_runs(runs: Path, tmp_path: Path) -> None:
    run, outside = write_run(runs), write_run(tmp_path / "outside")
    (runs / "away").symlink_to(outside.path)
    (runs / "notes").mkdir()
    found = Runs(runs)
    assert found.names() == [run.path.name]
    for name in ("away", "latest", "notes", "..", ".", "", f"../outside/{outside.path.name}"):
        must_fail(UsageError, "there is no run", found.path, name)


def test_an_accuracy_of_imagenet_is_named_and_sorted_behind_those_of_own_images() -> None:
    published = RunRow("p", RunState.FINISHED, pick=evaluation("p", accuracy=90, half_width=None))
    own = RunRow("o", RunState.FINISHED, pick=evaluation("o", accuracy=70))
    nothing = RunRow("n", RunState.FINISHED)
    column = map_columns()["accuracy"]
    assert sorted([published, nothing, own], key=column.key, reverse=column.falls) == [own, published, nothing]
    assert [figures(row.pick)[0] for row in (published, own)] == ["90.0 % (ImageNet)", "70.0 %"]


def other_metric(run: Path) -> None:
    """Change a request to one of equal size and time, so that only a reader of it can tell."""
    request = run / "request.yaml"
    facts, text = request.stat(), request.read_text(encoding="utf-8")
    request.write_text(text.replace("50ms", "60ms"), encoding="utf-8")
    os.utime(request, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_a_run_that_did_not_change_is_not_read_again(runs: Path) -> None:
    run = write_run(runs, manifest=ENDED)
    write_all(RunView.load(run), run.path)
    first = Runs(runs).rows()
    other_metric(run.path)
    assert Runs(runs).rows() == first
    os.utime(run.path / "request.yaml")
    (again,) = Runs(runs).rows()
    assert dict(again.limits)["budget"] == "60ms"


def test_the_index_forgets_runs_that_were_deleted(runs: Path) -> None:
    gone, kept = (write_run(runs, manifest=ENDED, name=name) for name in ("gone", "kept"))
    Runs(runs).rows()
    shutil.rmtree(gone.path)
    os.utime(kept.path / "request.yaml")
    assert [row.name for row in Runs(runs).rows()] == [kept.path.name]
    indexes = [json.loads(file.read_text(encoding="utf-8"))["rows"] for file in (cache_root() / "runs").glob("*.json")]
    assert [kept.path.name] in [list(rows) for rows in indexes]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"rows": {}}', "changed"])
def test_a_damaged_index_is_remade(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    run = write_run(runs, manifest=ENDED)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    Runs(runs).rows()
    (index,) = (cache_root() / "runs").glob("*.json")
    index.write_text(index.read_text(encoding="utf-8").replace("50ms", "70ms") if content == "changed" else content)
    other_metric(run.path)
    (row,) = Runs(runs).rows()
    assert dict(row.limits)["budget"] == "60ms"
    other = json.loads(index.read_text(encoding="utf-8"))
    assert list(other["rows"]) == [run.path.name]


def test_a_cache_that_is_read_only_is_no_error(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(runs, manifest=ENDED)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "file"))
    assert len(Runs(runs).rows()) == 1
