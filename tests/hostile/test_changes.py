"""Changes to a finished run: every command says which row or file does not fit, and none makes it true."""

from collections import Counter
from pathlib import Path

import pytest

from advisor.reporting import Runs
from advisor.store import RunFolder
from benchmarks.changed_runs import BELIEVED, CHANGES, DETECTED, NO_EFFECT, RECOMPUTED, finished_copy, judged
from tests.makers.commands import Advisor, ended, refused
from tests.makers.searches import Searched
from tests.run_folders import aged, images, write_run
from tests.tables import read_table

pytestmark = pytest.mark.integration

SAMPLE = [*CHANGES][::6]
UNDETECTED = set(read_table(__file__, "texts.yaml")["undetected_changes"])
"""What nothing in a run contradicts if all its hashes are computed again; some of it has no effect on the answer."""

LINE = "line 1 (best/head/int8@host:cpux1) has changed since it was written: left out"
AGED = "the run was made before 0.2.0: not verifiable"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs", dataset=images({"cat": 10, "dog": 10}), manifest={"stopped": {"why": "x"}}).path


@pytest.fixture
def changed(run: Path) -> Path:
    """A run of which the row of the pick states another accuracy."""
    file = run / "evaluations.jsonl"
    file.write_text(file.read_text().replace('"value": 92', '"value": 92.5'))
    return run


@pytest.fixture
def finished(with_images: Searched, tmp_path: Path) -> Path:
    """A search on images, with one configuration that was skipped."""
    return finished_copy(with_images.run.path, tmp_path / "finished")


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_change_is_detected_or_has_no_effect(finished: Path, tmp_path: Path, kind: str) -> None:
    assert judged(kind, finished, tmp_path / "changed").word in (DETECTED, NO_EFFECT)


@pytest.mark.parametrize("relink", [False, True])
def test_nothing_is_said_of_a_run_in_which_nothing_was_changed(finished: Path, tmp_path: Path, relink: bool) -> None:
    assert judged("nothing", finished, tmp_path / "same", relink).word == NO_EFFECT


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_change_is_detected_and_most_even_with_all_hashes_anew(finished: Path, tmp_path: Path) -> None:
    words = Counter(judged(kind, finished, tmp_path / "changed").word for kind in CHANGES)
    assert (words[BELIEVED], words[RECOMPUTED]) == (0, 0)
    assert words[DETECTED] > 40
    relinked = {kind: judged(kind, finished, tmp_path / "changed", relink=True).word for kind in CHANGES}
    assert {kind for kind, word in relinked.items() if word == BELIEVED} <= UNDETECTED


def test_a_report_names_a_changed_row_leaves_it_out_and_does_not_make_it_true(advisor: Advisor, changed: Path) -> None:
    said = ended(advisor("report", str(changed), "--json"))
    assert [LINE in remark for remark in said.document["remarks"]] == [True]
    assert said.document["pick"]["key"].startswith("fast/")
    for file in ("report.html", "report.md"):
        assert "has changed since it was written: left out" in (changed / file).read_text(encoding="utf-8")
    assert LINE in ended(advisor("report", str(changed))).err


def test_a_report_keeps_a_whole_run_whole(advisor: Advisor, run: Path) -> None:
    for _ in range(2):
        assert "warning" not in ended(advisor("report", str(run))).err
    for names in (["report.md"], ["report.md", "report.html"]):
        for name in names:
            (run / name).write_text("another answer")
        (line,) = (line for line in ended(advisor("report", str(run))).err.splitlines() if "warning" in line)
        assert f"{', '.join(names)} ha" in line
    assert "warning" not in ended(advisor("report", str(run))).err


def test_an_export_is_refused_unless_it_names_a_candidate_that_proves_itself(advisor: Advisor, changed: Path) -> None:
    refused(advisor("export", str(changed), "--to", "b"), "does not prove itself", LINE, "advisor doctor")
    named = advisor("export", str(changed), "--to", "b", "--pick", "small/head/int8@host:cpux1")
    refused(named, "small-head-int8.tflite is not a usable .tflite file")
    gone = advisor("export", str(changed), "--to", "b", "--pick", "best/head/int8@host:cpux1")
    refused(gone, "the run has no candidate 'best/head/int8@host:cpux1'")


def test_an_export_of_a_run_with_another_request_is_refused_whatever_it_names(advisor: Advisor, run: Path) -> None:
    file = run / "request.yaml"
    file.write_text(file.read_text().replace("50ms", "500ms"))
    said = advisor("export", str(run), "--to", "b", "--pick", "small/head/int8@host:cpux1")
    refused(said, "request.yaml has changed since it was written")


def test_a_changed_row_is_named_and_re_evaluation_makes_no_run(advisor: Advisor, changed: Path, tmp_path: Path) -> None:
    other = str(write_run(tmp_path / "others").path)
    said = ended(advisor("compare", other, str(changed), "--json"), 4)
    assert LINE in said.err
    assert [LINE in row["what"] for row in said.document["differences"] if row["topic"] == "run folder"] == [True]
    refused(advisor("reevaluate", str(changed), "--device", "raspberry-pi-4"), "does not prove itself", LINE)
    said = advisor("reevaluate", "--all", "--runs", str(changed.parent), "--json").document
    assert [LINE in result["error"] for result in said["results"]] == [True]
    assert len([*changed.parent.glob("2*")]) == 1
    said = ended(advisor("runs", str(changed.parent), "--json")).document["runs"]
    assert [(row["state"], LINE in row["why"]) for row in said] == [("damaged", True)]
    assert "line 1" in ended(advisor("runs", str(changed.parent))).out


@pytest.mark.parametrize(("name", "old", "new"), [("request.yaml", "50ms", "500ms"), ("manifest.json", "3.11", "3.12")])
def test_another_request_or_manifest_is_not_resumed(advisor: Advisor, run: Path, name: str, old: str, new: str) -> None:
    (run / name).write_text((run / name).read_text().replace(old, new))
    said = advisor("search", "--resume", str(run), "--offline")
    refused(said, f"{name} of '{run}' has changed since the search wrote it")


def test_the_list_of_runs_shows_no_pick_of_an_answer_that_was_changed(advisor: Advisor, run: Path) -> None:
    ended(advisor("report", str(run)))
    assert [row.model for row in Runs(run.parent).rows()] == ["best int8"]
    file = run / "recommendation.json"
    file.write_text(file.read_text().replace('"value": 92', '"value": 99'))
    assert [(row.model, row.state) for row in Runs(run.parent).rows()] == [("", "damaged")]


def test_a_run_without_hashes_opens_with_a_line(advisor: Advisor, run: Path) -> None:
    aged(RunFolder.open(run))
    assert AGED in ended(advisor("report", str(run))).err
    said = ended(advisor("runs", str(run.parent), "--json")).document["runs"]
    assert [(row["state"], row["remark"]) for row in said] == [("finished", AGED)]
    assert "not verifiable" in ended(advisor("runs", str(run.parent))).out
    refused(advisor("export", str(run), "--to", "b"), "best-head-int8.tflite is not a usable .tflite file")


def test_doctor_of_a_run_without_hashes_is_a_warning(advisor: Advisor, finished: Path) -> None:
    aged(RunFolder.open(finished))
    said = ended(advisor("doctor", str(finished), "--json"))
    assert [(check["name"], check["state"]) for check in said.document["checks"]] == [("the run", "warning")]


def test_doctor_names_each_thing_that_does_not_fit(advisor: Advisor, changed: Path) -> None:
    (changed / "artifacts" / "fast-head-int8.tflite").write_bytes(b"another file")
    said = ended(advisor("doctor", str(changed), "--json"), 3)
    found = {check["name"]: check["found"] for check in reversed(said.document["checks"])}
    assert "has changed since it was measured" in found["artifacts/fast-head-int8.tflite"]
    assert LINE in found["evaluations.jsonl"]
    assert "fast-head-int8.tflite has 12 bytes, not 5000000" in said.out
    assert {check["state"] for check in said.document["checks"]} == {"failed"}


def test_doctor_computes_accuracies_and_their_intervals_again(advisor: Advisor, finished: Path) -> None:
    for kind in ("accuracy x 1.05 with its interval", "answers shuffled", "fewer images of the hold-out"):
        assert judged(kind, finished, finished.parent / kind, relink=True).word not in (BELIEVED, NO_EFFECT)
    run = RunFolder.open(finished)
    row = next(each for each in run.evaluations() if each.answers.file)
    count = row.accuracy.n if row.accuracy else 0
    run.keep_answers(Path(row.answers.file).stem, [0] * (count or 0))
    run.reseal(row.answers.file)
    said = ended(advisor("doctor", str(finished)), 3).out
    assert "the answers on validation give" in said
