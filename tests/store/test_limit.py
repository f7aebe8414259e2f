"""The cache has a limit: the least recently used results go, and what is in use or kept stays."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.store import ArtifactCache, CacheUse, find_changed_file, limit_bytes
from advisor.store._cache_entries import list_entries
from advisor.store._cache_uses import Lease, get_process_lease, list_uses
from advisor.store._limit import evict_results
from tests.builders import must_fail
from tests.store.test_files import files_at_most
from tests.tables import read_table, with_cases

open_limited = ArtifactCache.open_limited
MEGABYTE = 1_000_000
HOUR_S = 3600
USER = read_table(__file__, "programs.yaml")["user"]
CLEANER = read_table(__file__, "programs.yaml")["cleaner"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(folder))
    monkeypatch.delenv("ADVISOR_CACHE_SIZE", raising=False)
    yield folder
    get_process_lease(folder, os.getpid()).release()


def filler(size: int) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        (folder / "model.tflite").write_bytes(os.urandom(size))

    return fill


def make(root: Path, number: int, hold: Lease | None = None, size: int = MEGABYTE, age_s: float = 0.0) -> Path:
    """Make a result as a search does, and let it be as old as asked."""
    folder = ArtifactCache(root / "artifacts", hold).get("head-5", {"number": number}, filler(size))
    then = time.time() - age_s
    os.utime(folder, (then, then))
    return folder


def numbers(root: Path, folders: list[Path]) -> list[int]:
    return [number for number, folder in enumerate(folders) if folder.is_dir()]


@pytest.mark.parametrize("writable_bytes", [10**9, 0], ids=["", "full disk"])
def test_the_least_recently_used_results_go_until_the_cache_is_within_limits(root: Path, writable_bytes: int) -> None:
    folders = [make(root, number, age_s=HOUR_S * (5 - number)) for number in reversed(range(5))][::-1]
    with files_at_most(writable_bytes):
        done = evict_results(root, 2_500_000)
    assert numbers(root, folders) == [3, 4]
    assert done.count == 3
    assert done.left_bytes <= 2_500_000
    assert sum(entry.size_bytes for entry in list_entries(root)) == done.left_bytes


def test_a_result_that_is_used_again_is_no_longer_the_oldest(root: Path) -> None:
    folders = [make(root, number, age_s=HOUR_S * (5 - number)) for number in range(3)]
    ArtifactCache(root / "artifacts").get("head-5", {"number": 0}, filler(1))
    evict_results(root, 2_500_000)
    assert numbers(root, folders) == [0, 2]


def test_what_a_running_process_uses_stays_although_the_limit_is_passed_and_the_sentence_says_so(root: Path) -> None:
    hold = Lease(root)
    folders = [make(root, number, hold, age_s=HOUR_S * (5 - number)) for number in range(3)]
    done = evict_results(root, MEGABYTE)
    assert numbers(root, folders) == [0, 1, 2]
    assert "more than its limit of 1.0 MB: running searches and kept runs hold 3.0 MB" in done.sentence
    hold.release()
    evict_results(root, 1_500_000)
    assert numbers(root, folders) == [2]


def test_checkpoints_of_a_running_search_stay_and_others_go_with_their_hashes(root: Path) -> None:
    hold, cache = Lease(root), ArtifactCache(root / "artifacts")
    for number, kept in enumerate((True, False)):
        folder = cache.folder("finetune_cached-2", {"number": number})
        if kept:
            hold.add(f"artifacts/finetune_cached-2/{folder.name}")
        folder.with_suffix(".checkpoints").mkdir(parents=True)
        (folder.with_suffix(".checkpoints") / "weights").write_bytes(bytes(MEGABYTE))
    gone = make(root, 7)
    evict_results(root, 0)
    assert [path.name[-12:] for path in (root / "artifacts" / "finetune_cached-2").iterdir()] == [".checkpoints"]
    assert not Path(f"{gone}.sha256").exists()
    hold.release()


def test_a_kept_run_stays_until_it_is_let_go(root: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    hold = Lease(root, run)
    folder = make(root, 1, hold)
    hold.release()
    assert CacheUse.keep_run(root, run).kept
    evict_results(root, 0)
    assert folder.is_dir()
    assert not CacheUse.keep_run(root, run, keep=False).kept
    evict_results(root, 0)
    assert not folder.exists()


def test_a_run_unknown_to_the_cache_is_not_kept_and_a_deleted_one_holds_nothing(root: Path, tmp_path: Path) -> None:
    must_fail(UsageError, "does not know what 'runs/other' used", CacheUse.keep_run, root, Path("runs/other"))
    hold = Lease(root, tmp_path / "gone")
    hold.add("artifacts/head-5/1")
    hold.release()
    assert list_uses(root) == ()
    assert [file.name for file in (root / "uses").iterdir()] == [".lock"]


def test_a_linked_folder_of_records_keeps_the_files_of_others(root: Path, tmp_path: Path) -> None:
    hold = Lease(root, tmp_path / "gone")
    hold.add("artifacts/head-5/1")
    hold.release()
    elsewhere = tmp_path / "elsewhere"
    (root / "uses").rename(elsewhere)
    (root / "uses").symlink_to(elsewhere)
    for name in ("Makefile", "run-notes", "run-0123456789abcdef.txt"):
        (elsewhere / name).write_text("mine")
    (elsewhere / "run-0123456789abcdef").symlink_to(elsewhere / "Makefile")
    os.mkfifo(elsewhere / "process-1-01234567")  # reading it would never end
    (elsewhere / "run-0000000000000000").write_text("/" + "a" * 5000)
    list_uses(root)
    evict_results(root, 0)
    left = {"Makefile", "run-notes", "run-0123456789abcdef.txt", "run-0123456789abcdef", "process-1-01234567"}
    assert {path.name for path in elsewhere.iterdir()} == {*left, ".lock"}


@with_cases
def test_what_is_in_the_way_of_records_is_told(root: Path, tmp_path: Path, place: str, target: str, words: str) -> None:
    (tmp_path / "file").write_text("mine")
    (root / "file").write_text("mine")
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).symlink_to(target)
    for act in (list_uses, lambda folder: evict_results(folder, 0), lambda _: open_limited(None).__enter__()):
        refused = must_fail(UsageError, words, act, root)
        assert refused.hint
    assert (tmp_path / "file").read_text() == "mine"


def test_the_name_of_a_maker_is_not_written_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    folder = ArtifactCache(root / "artifacts").folder("head-5", {"number": 1})
    folder.parent.mkdir(parents=True)
    Path(f"{folder}.holder").symlink_to(tmp_path / "mine")
    make(root, 1)
    assert (tmp_path / "mine").read_text() == "mine"


def test_downloads_go_only_by_name_and_never_while_something_runs(root: Path) -> None:
    for kind in ("weights", "packages"):
        (root / kind / "one").mkdir(parents=True)
        (root / kind / "one" / "file").write_bytes(bytes(MEGABYTE))
    assert evict_results(root, 0).count == 0
    hold = Lease(root)
    hold.add("artifacts/head-5/1")
    assert evict_results(root, 0, ["weights"]).count == 0
    hold.release()
    assert evict_results(root, 0, ["weights"]).count == 1
    assert [entry.kind for entry in list_entries(root)] == ["packages"]


def test_a_cache_for_a_block_ends_within_its_limit_and_says_needs(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_limited(2_500_000) as cache:
        folders = [cache.get("head-5", {"number": number}, filler(MEGABYTE)) for number in range(4)]
        assert all(folder.is_dir() for folder in folders)
    assert sum(entry.size_bytes for entry in list_entries(root)) <= 2_500_000
    assert "this command needs 4.0 MB of the cache, downloads included, and the limit is 2.5 MB" in caplog.text


def test_the_limit_is_a_tenth_of_a_small_disk_or_the_variables(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < limit_bytes(root) <= 20_000_000_000
    monkeypatch.setenv("ADVISOR_CACHE_SIZE", "3GB")
    assert limit_bytes(root) == 3_000_000_000
    assert limit_bytes(root, 5) == 5
    monkeypatch.setenv("ADVISOR_CACHE_SIZE", "much")
    must_fail(UsageError, "ADVISOR_CACHE_SIZE: 'much' is not a number with a unit", ArtifactCache.require_folder)


@pytest.mark.integration
def test_two_processes_that_use_and_clean_one_cache_never_lose_what_they_use(root: Path) -> None:
    users = [
        subprocess.Popen([sys.executable, "-c", USER, str(root), str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(2)
    ]
    assert [user.communicate(timeout=120)[0] for user in users] == ["done\n", "done\n"]


@pytest.mark.integration
@pytest.mark.parametrize("after", [0, 1, 2, 4, 7])
def test_a_killed_cleaner_leaves_whole_results_and_the_next_one_ends_its_work(root: Path, after: int) -> None:
    folders = [make(root, number, age_s=HOUR_S * (5 - number)) for number in range(4)]
    cleaner = subprocess.run([sys.executable, "-c", CLEANER, str(root), str(after)], check=False)
    assert cleaner.returncode == -signal.SIGKILL
    assert all(find_changed_file(folder) is None for folder in folders if folder.is_dir())
    assert folders[3].is_dir()
    evict_results(root, 1_500_000)
    assert numbers(root, folders) == [3]
    assert not [path for path in (root / "artifacts" / "head-5").iterdir() if path.name.startswith(".going")]
    make(root, 0)
    assert find_changed_file(folders[0]) is None


def test_on_a_full_disk_a_cached_result_is_still_used(root: Path) -> None:
    folder, hold = make(root, 1), Lease(root)
    with files_at_most(0):
        assert ArtifactCache(root / "artifacts", hold).get("head-5", {"number": 1}, filler(1)) == folder
    hold.release()


def test_many_threads_share_a_hold(root: Path) -> None:
    hold = Lease(root)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: hold.add(f"artifacts/head-5/{number % 20}"), range(200)))
    (use,) = list_uses(root)
    assert len(use.keys) == 20
    assert use.live
    hold.release()


def write_precious(folder: Path) -> Path:
    """Make a folder of somebody's own with a name like that of a result."""
    file = folder / ("a" * 64) / "thesis.txt"
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    return file


@pytest.mark.parametrize("link", ["artifacts/features-3", "artifacts/features", "weights", "runtimes"])
def test_nothing_behind_a_link_is_removed(root: Path, tmp_path: Path, link: str) -> None:
    make(root, 1)
    precious = write_precious(tmp_path / "elsewhere")
    (root / link).symlink_to(tmp_path / "elsewhere")
    evict_results(root, 0)
    evict_results(root, 0, kinds=["features", "weights", "runtimes"])
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["photos-2020", "features", "head-5"])
def test_folders_of_others_among_the_results_stay(root: Path, name: str) -> None:
    (root / "artifacts" / name / "holiday").mkdir(parents=True)
    file = root / "artifacts" / name / "holiday" / "1.jpg"
    file.write_text("mine")
    evict_results(root, 0)
    assert file.read_text() == "mine"
    assert list_entries(root) == ()


def test_a_cache_on_another_disk_is_cleaned_through_the_link_of_its_owner(root: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (root / "artifacts").symlink_to(tmp_path / "disk")
    precious = write_precious(tmp_path / "disk" / "notes")
    result = make(root, 1)
    assert result.is_dir()
    evict_results(root, 0)
    assert not result.exists()
    assert precious.read_text() == "mine"
