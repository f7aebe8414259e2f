"""A disk that takes no more: made by the limit of a file's size, which stops writes in the same way."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from advisor.core.errors import StageError
from advisor.core.evaluation import Configuration, Evaluation, Status, Target
from advisor.store import ArtifactCache, RunFolder
from advisor.store.files import is_full_disk


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


def test_a_child_that_met_the_full_disk_says_so_too(tmp_path: Path) -> None:
    def make(_folder: Path) -> None:
        raise StageError("OSError: [Errno 28] No space left on device")

    with pytest.raises(StageError, match="the disk is full"):
        ArtifactCache(tmp_path).get("score-1", {}, make)


def test_other_failures_stay_what_they_are(tmp_path: Path) -> None:
    def make(_folder: Path) -> None:
        raise StageError("crashed with SIGSEGV")

    with pytest.raises(StageError, match="SIGSEGV"):
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


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_codes_of_a_full_disk_are_known(code: int) -> None:
    assert is_full_disk(OSError(code, "x"))


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "x"), ValueError("3 requested")])
def test_others_are_not_taken_for_it(error: Exception) -> None:
    assert not is_full_disk(error)
