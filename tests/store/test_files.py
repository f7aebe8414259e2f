"""Files are written whole or not at all, and damage to a run folder is named."""

import errno
import hashlib
import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core import Evaluation, ImageAnswers, StageError, Status, UsageError
from advisor.store import (
    ArtifactCache,
    Problem,
    RunFolder,
    _evaluation_rows as rows,
    chain_lines,
    ensure_output_dir,
    write_atomically,
)
from advisor.store._files import is_full_disk
from advisor.store._run_integrity import CHANGED, OLD
from tests.builders import evaluation, must_fail, present
from tests.run_folders import aged, lines, with_artefact, write_run
from tests.tables import with_cases


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_file_has_the_permissions_that_the_user_wants(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_what_cannot_be_written_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    must_fail(UnicodeEncodeError, "", write_atomically, path, "\ud800")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_a_folder_is_made_and_what_is_there_is_named_and_stays_unless_forced(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    ensure_output_dir(folder, ["x.tflite"], force=False)
    (folder / "x.tflite").touch()
    with pytest.raises(UsageError, match=r"already contains x\.tflite"):
        ensure_output_dir(folder, ["w.tflite", "x.tflite"], force=False)
    ensure_output_dir(folder, ["x.tflite"], force=True)
    ensure_output_dir(folder, ["w.tflite"], force=False)


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    must_fail(UsageError, "cannot be made", ensure_output_dir, tmp_path / "file" / "forms", [], force=False)


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _too_large(folder: Path) -> None:
    np.save(folder / "features.npy", np.zeros(100_000))


def test_a_result_that_does_not_fit_is_a_plain_error_and_leaves_nothing(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    with files_at_most(50_000), pytest.raises(StageError, match="the disk is full") as caught:
        cache.get("features-1", {"a": 1}, _too_large)
    assert "--resume" in caught.value.hint
    assert not cache.folder("features-1", {"a": 1}).exists()
    assert [path for path in tmp_path.rglob("*") if path.suffix != ".lock" and path.is_file()] == []
    assert cache.get("features-1", {"a": 1}, _too_large).is_dir()


@with_cases
def test_a_child_that_met_the_full_disk_says_so_and_others_do_not(tmp_path: Path, failure: str, words: str) -> None:
    def make(_folder: Path) -> None:
        raise StageError(failure)

    must_fail(StageError, words, ArtifactCache(tmp_path).get, "score-1", {}, make)


def test_what_was_evaluated_before_the_disk_was_full_is_kept(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "full")
    files = (evaluation(threads=threads).configuration for threads in (1, 2))
    done = [Evaluation(configuration, Status.FAILED, "family", reason="because") for configuration in files]
    run.append(done[0])
    with files_at_most(run.evaluations_file.stat().st_size + 10), pytest.raises(StageError, match="the disk is full"):
        run.append(done[1])
    assert run.evaluations() == (done[0],)
    run.append(done[1])
    assert run.evaluations() == tuple(done)


def test_codes_of_a_full_disk_are_known_and_others_are_not_taken_for_it() -> None:
    assert all(is_full_disk(OSError(code, "x")) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
    assert not any(map(is_full_disk, (OSError(errno.EACCES, "x"), ValueError("3 requested"))))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return write_run(tmp_path / "runs")


def texts(run: RunFolder) -> list[str]:
    return [str(problem) for problem in Problem.list_in_run(run)]


def test_an_artefact_that_was_changed_is_gone_or_outside_the_run_is_named_and_not_read(run: RunFolder) -> None:
    (run.artefacts / "best-head-int8.tflite").write_bytes(b"other")
    assert "artifacts/best-head-int8.tflite has changed since it was measured" in texts(run)[0]
    (run.artefacts / "best-head-int8.tflite").unlink()
    assert texts(run) == ["artifacts/best-head-int8.tflite is missing: it cannot be shipped or measured again"]
    strayed = replace(run.evaluations()[0], artefact="../../secret")
    assert "outside the run folder" in present(Problem.find_in_artefact(run, strayed)).what


def test_a_torn_line_costs_itself_alone(run: RunFolder) -> None:
    kept = lines(run)
    torn = [kept[0], '{"configuration": {"card"', "[]", *kept[1:]]
    run.evaluations_file.write_text("\n".join(torn), encoding="utf-8")
    assert texts(run) == ["evaluations.jsonl has 2 unreadable lines (2, 3): ignored"]
    assert len(run.evaluations()) == 3


@pytest.mark.parametrize("content", ["{half", "[]", '{"schema_version": 99}'])
def test_a_damaged_document_is_named(run: RunFolder, content: str) -> None:
    (run.path / "manifest.json").write_text(content)
    assert [problem.file for problem in Problem.list_in_run(run)] == ["manifest.json"]


def test_missing_evaluations_and_answers_are_named(run: RunFolder, tmp_path: Path) -> None:
    run.evaluations_file.unlink()
    assert texts(run) == ["evaluations.jsonl is missing: nothing was evaluated"]
    run = write_run(tmp_path, [replace(evaluation(), answers=ImageAnswers(file="answers/x.npy"))])
    assert "answers/x.npy is missing" in texts(run)[0]


@pytest.mark.parametrize("content", ["", "- a list", "budget: [", "schema_version: new", "\x00"])
def test_a_damaged_request_is_refused_by_name(run: RunFolder, content: str) -> None:
    (run.path / "request.yaml").write_text(content)
    must_fail(UsageError, r"request\.yaml cannot be read", RunFolder.open, run.path)


def rewritten(run: RunFolder, change: Callable[[list[str]], list[str]]) -> None:
    run.evaluations_file.write_text("".join(f"{line}\n" for line in change(list(lines(run)))), encoding="utf-8")


def of(run: RunFolder, kind: str = CHANGED) -> list[str]:
    """Return what a reader of the folder says is of this kind."""
    return [str(problem) for problem in Problem.list_in_run(RunFolder.open(run.path)) if problem.kind == kind]


def cards(run: RunFolder) -> list[str]:
    return [each.configuration.card for each in RunFolder.open(run.path).evaluations()]


def test_each_line_has_its_hash_and_that_of_the_line_before_it(run: RunFolder) -> None:
    before = ""
    for line in lines(run):
        row = json.loads(line)
        text = line.removesuffix(f', "hash": "{row["hash"]}"}}') + "}"
        assert (row["before"], row["hash"]) == (before, hashlib.sha256(text.encode()).hexdigest())
        before = row["hash"]
    assert (run.seal.lines, run.seal.head) == (3, before)


def test_a_changed_line_is_named_by_number_and_configuration_and_left_out(run: RunFolder) -> None:
    rewritten(run, lambda rows: [rows[0], rows[1].replace('"value": 84', '"value": 84.5'), rows[2]])
    said = "evaluations.jsonl line 2 (fast/head/int8@host:cpux1) has changed since it was written: left out"
    assert of(run) == [said]
    assert cards(run) == ["best", "small"]


def test_a_line_that_breaks_a_rule_is_named_with_it_though_its_hash_fits(run: RunFolder) -> None:
    run.append(replace(run.evaluations()[0], artefact=""))
    assert of(run) == [
        "evaluations.jsonl line 4 (best/head/int8@host:cpux1) breaks the rule that an evaluation that is ok has a file "
        "with a size: left out"
    ]
    assert cards(run) == ["best", "fast", "small"]


def test_a_line_without_a_hash_among_others_is_left_out(run: RunFolder) -> None:
    hashless = json.dumps({**json.loads(lines(run)[1]), "hash": "", "before": ""})
    rewritten(run, lambda rows: [*rows, hashless])
    assert "line 4 (fast/head/int8@host:cpux1) has no hash, as the lines before it have" in of(run)[0]


@with_cases
def test_gone_or_moved_is_noticed(run: RunFolder, places: list[int], words: list[str]) -> None:
    rewritten(run, lambda rows: [rows[place] for place in places])
    assert all(part in said for part, said in zip(words, of(run), strict=True)), of(run)


def test_lines_with_other_hashes_than_the_manifest_names_are_noticed(run: RunFolder) -> None:
    run.evaluations_file.write_text(chain_lines(run.evaluations()[::-1])[0], encoding="utf-8")
    assert of(run) == ["evaluations.jsonl has other lines than manifest.json names, up to line 3"]


def test_many_changed_lines_are_not_all_listed(tmp_path: Path) -> None:
    run = write_run(tmp_path, [evaluation(f"net{place}") for place in range(9)])
    rewritten(run, lambda rows: [row.replace("80.0", "81.0") for row in rows])
    assert len(of(run)) == 6
    assert of(run)[-1] == "evaluations.jsonl has 9 such lines in all"


def test_a_killed_search_has_lines_after_its_manifest_and_no_problem(run: RunFolder) -> None:
    run.append(with_artefact(run, evaluation("later")))
    with run.evaluations_file.open("ab") as file:
        file.write(b'{"configuration": {"card": "half')
    assert (of(run), cards(run)[-1]) == ([], "later")
    (run.path / "manifest.json").unlink()
    assert (of(run), cards(run)[-1]) == ([], "later")
    again = RunFolder.open(run.path)
    again.append(with_artefact(again, evaluation("resumed")))
    assert (of(run), cards(run)[-2:]) == ([], ["later", "resumed"])


def test_a_changed_document_is_named_and_its_content_ignored(run: RunFolder) -> None:
    run.write_json("split.json", {"classes": ["a"], "validation": []})
    run.reseal("split.json")
    assert of(run) == []
    (run.path / "split.json").write_text('{"schema_version": 1, "classes": ["b"]}')
    assert of(run) == ["split.json has changed since it was written: it is not used"]
    assert RunFolder.open(run.path).read_json("split.json") == {}
    (run.path / "split.json").unlink()
    assert of(run) == ["split.json is missing, and was there when the search ended"]


def test_a_changed_manifest_is_named_and_its_content_ignored(run: RunFolder) -> None:
    manifest = run.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("3.11.7", "3.12.0"))
    assert of(run) == ["manifest.json has changed since it was written: its content is ignored"]
    assert RunFolder.open(run.path).read_json("manifest.json") == {}
    manifest.write_text('{"schema_version": 1}')
    assert of(run) == ["manifest.json has no hashes, as the lines of the evaluations have: not verifiable"]


def test_a_document_that_was_added_to_a_finished_run_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path, manifest={"stopped": {"why": "complete"}})
    (run.path / "labels.json").write_text('{"schema_version": 1, "card": "x", "images": 1, "found": []}')
    assert of(run) == ["labels.json was added after the search: manifest.json does not name it"]


def test_a_new_manifest_does_not_make_a_changed_file_true(run: RunFolder) -> None:
    again = RunFolder.open(run.path)
    (run.path / "request.yaml").write_text("schema_version: 1\nbudget: 500ms\n")
    again.write_json("manifest.json", again.read_json("manifest.json"))
    assert of(run) == ["request.yaml has changed since it was written: it is not used"]
    again.write_request({"budget": "500ms"})
    again.write_json("manifest.json", again.read_json("manifest.json"))
    assert of(run) == []


def test_a_run_without_hashes_says_that_it_cannot_be_verified(run: RunFolder) -> None:
    aged(run)
    assert (of(run), of(run, OLD)) == ([], ["the run was made before 0.2.0: not verifiable"])
    assert cards(run) == ["best", "fast", "small"]


def test_an_old_run_that_is_resumed_gets_hashes_from_there_on(run: RunFolder) -> None:
    aged(run)
    again = RunFolder.open(run.path)
    again.append(with_artefact(again, evaluation("new")))
    again.write_json("manifest.json", again.read_json("manifest.json"))
    assert (again.seal.lines, of(run), cards(run)[-1]) == (1, [], "new")
    assert of(run, OLD) == ["evaluations.jsonl has 3 lines that were made before 0.2.0: not verifiable"]


def test_lines_are_read_once_until_they_change(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run.evaluations()
    monkeypatch.setattr(rows, "read_text", None)
    assert len(run.evaluations()) == 3
    monkeypatch.undo()
    run.append(with_artefact(run, evaluation("more")))
    assert len(run.evaluations()) == 4
