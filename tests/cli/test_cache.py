"""``advisor cache``: what is there, what goes, and what stays."""

import json
import os
import time
from pathlib import Path

import pytest

from advisor.store import ArtifactCache
from advisor.store._cache_uses import Lease
from tests.makers.commands import Advisor, refused
from tests.tables import with_cases


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that used one of two results of a cache; the other one is older."""
    root, folder = tmp_path / "cache", tmp_path / "runs" / "one"
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(root))
    monkeypatch.delenv("ADVISOR_CACHE_SIZE", raising=False)
    folder.mkdir(parents=True)
    hold = Lease(root, folder)
    for stage, own in (("features-3", hold), ("head-5", None)):
        made = ArtifactCache(root / "artifacts", own).get(
            stage, {}, lambda result: (result / "a").write_bytes(bytes(2_000_000))
        )
        os.utime(made, (time.time() - 3600, time.time() - 3600 * (1 if own else 2)))
    (root / "weights" / "abc").mkdir(parents=True)
    (root / "weights" / "abc" / "file").write_bytes(bytes(1_000_000))
    hold.release()
    return folder


def kinds(advisor: Advisor) -> dict[str, int]:
    found = json.loads(advisor("cache", "--json").out)["kinds"]
    return {each["kind"]: each["size_bytes"] // 1_000_000 for each in found}


def test_the_cache_is_shown_by_kind_and_by_run(advisor: Advisor, run: Path) -> None:
    said = advisor("cache").out
    assert "5.0 MB of" in said
    rows = [line.split()[0] for line in said.splitlines() if " MB " in line]
    assert rows == ["Cache:", "features", "head", "weights", "runs/one"]
    (row,) = json.loads(advisor("cache", "--json").out)["runs"]
    assert (row["run"], row["entries"], row["alone_bytes"] // 1_000_000) == (str(run), 1, 2)


def test_cleaning_reaches_the_size_and_says_what_went(advisor: Advisor, run: Path) -> None:
    assert "removed 1 entry (2.0 MB); the cache has 3.0 MB" in advisor("cache", "clean", "--cache-size", "3.5MB").out
    assert kinds(advisor) == {"features": 2, "weights": 1}


def test_cleaning_all_leaves_downloads_and_kept_runs(advisor: Advisor, run: Path) -> None:
    kept = advisor("cache", "keep", str(run))
    assert ("1 results stay" in kept.out, f"advisor cache keep {run} --off" in kept.err) == (True, True)
    assert "kept" in advisor("cache").out
    advisor("cache", "clean", "--all")
    assert kinds(advisor) == {"features": 2, "weights": 1}
    advisor("cache", "keep", str(run), "--off")
    advisor("cache", "clean", "--all")
    assert kinds(advisor) == {"weights": 1}


@pytest.mark.usefixtures("run")
@with_cases
def test_what_is_wrong_is_refused(advisor: Advisor, arguments: str, words: str) -> None:
    refused(advisor("cache", *arguments.split()), words)


def test_a_kind_is_removed_by_its_name(advisor: Advisor, run: Path) -> None:
    advisor("cache", "clean", "weights")
    assert kinds(advisor) == {"features": 2, "head": 2}
