"""Files are written whole or not at all, and never replaced by accident.

A disk that takes no more: made by the limit of a file's size, which stops writes in the same way. Damage to a run
folder is named, and everything that is whole is still read.
"""

import errno
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.errors import StageError, UsageError
from advisor.core.evaluation import Configuration, Evaluation, Status, Target
from advisor.core.evaluation_facts import ImageAnswers
from advisor.store import ArtifactCache, RunFolder
from advisor.store.files import ensure_output_dir, is_full_disk, write_atomically
from advisor.store.run_folder import artefact_problem, integrity_problems
from tests.builders import evaluation, present
from tests.run_folders import lines, write_run


@pytest.mark.parametrize("content", ["Käse\n", b"\x00\xff"])
def test_the_new_content_replaces_the_old(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    write_atomically(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)


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
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
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
    with pytest.raises(UsageError, match="cannot be made"):
        ensure_output_dir(tmp_path / "file" / "forms", [], force=False)


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """Let no file grow beyond ``size`` bytes."""
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


@pytest.mark.parametrize(
    ("failure", "words"),
    [("OSError: [Errno 28] No space left on device", "the disk is full"), ("crashed with SIGSEGV", "SIGSEGV")],
)
def test_a_child_that_met_the_full_disk_says_so_too_and_other_failures_stay(
    tmp_path: Path, failure: str, words: str
) -> None:
    def make(_folder: Path) -> None:
        raise StageError(failure)

    with pytest.raises(StageError, match=words):
        ArtifactCache(tmp_path).get("score-1", {}, make)


def test_what_was_evaluated_before_the_disk_was_full_is_kept(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "full")
    done = [_evaluation(threads) for threads in (1, 2)]
    run.append(done[0])
    with files_at_most(run.evaluations_file.stat().st_size + 10), pytest.raises(StageError, match="the disk is full"):
        run.append(done[1])
    assert run.evaluations() == (done[0],)
    run.append(done[1])
    assert run.evaluations() == tuple(done)


def _evaluation(threads: int) -> Evaluation:
    target = Target("host", "ai-edge-litert", "cpu", threads)
    return Evaluation(Configuration("card", "head", "float32", target), Status.FAILED, "family", reason="because")


def test_codes_of_a_full_disk_are_known_and_others_are_not_taken_for_it() -> None:
    assert all(is_full_disk(OSError(code, "x")) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
    assert not any(map(is_full_disk, (OSError(errno.EACCES, "x"), ValueError("3 requested"))))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return write_run(tmp_path / "runs")


def texts(run: RunFolder) -> list[str]:
    return [str(problem) for problem in integrity_problems(run)]


def test_a_whole_run_has_no_problem(run: RunFolder) -> None:
    assert integrity_problems(run) == ()


def test_an_artefact_that_was_changed_or_is_gone_is_named(run: RunFolder) -> None:
    (run.artefacts / "best-head-int8.tflite").write_bytes(b"other")
    assert "artifacts/best-head-int8.tflite has changed since it was measured" in texts(run)[0]
    (run.artefacts / "best-head-int8.tflite").unlink()
    assert texts(run) == ["artifacts/best-head-int8.tflite is missing: it cannot be shipped or measured again"]


def test_an_artefact_outside_the_run_is_not_read(run: RunFolder) -> None:
    strayed = replace(run.evaluations()[0], artefact="../../secret")
    assert "outside the run folder" in present(artefact_problem(run, strayed)).what


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
    run = write_run(tmp_path, [replace(evaluation(), answers=ImageAnswers(file="answers/x.npy"))])
    assert "answers/x.npy is missing" in texts(run)[0]


@pytest.mark.parametrize("content", ["", "- a list", "budget: [", "schema_version: new", "\x00"])
def test_a_damaged_request_is_refused_by_name(run: RunFolder, content: str) -> None:
    (run.path / "request.yaml").write_text(content)
    with pytest.raises(UsageError, match=r"request\.yaml cannot be read"):
        RunFolder.open(run.path)
