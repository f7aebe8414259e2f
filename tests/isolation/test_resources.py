"""Temporary folders whose owner is gone are removed; those that are in use, or were made just now, are not."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.engine._pipeline.walker import run_coroutine
from advisor.isolation import MemoryGate, Scratch, sweep_folders
from advisor.isolation._cores import MOST_SLOWDOWN, measure_slowdown, read_quota_cores, usable_cores
from advisor.isolation._memory import GROWS_S, KEPT_FREE_BYTES, NO_LIMIT, _read_cgroup_room, free_bytes
from advisor.measurement import host
from tests.builders import must_fail, write_file
from tests.tables import with_cases

GB = 10**9


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left(folder: Path) -> list[Path]:
    return list(folder.glob("advisor-scratch-*"))


def test_a_folder_is_removed_at_the_end_of_its_block(temporary: Path) -> None:
    with Scratch() as folder:
        (folder / "file").write_text("x")
        assert left(temporary) == [folder]
    assert left(temporary) == []


def test_a_folder_in_use_is_not_removed(temporary: Path) -> None:
    with Scratch() as first:
        os.utime(first, (0, 0))
        with Scratch():
            assert first.is_dir()


def test_a_folder_that_a_living_process_made_just_now_is_not_removed(temporary: Path) -> None:
    (temporary / f"advisor-scratch-{os.getpid()}-new").mkdir()
    with Scratch():
        assert len(left(temporary)) == 2


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_folder_of_a_process_id_that_was_given_again_is_removed_whatever_clock(temporary: Path, hours: int) -> None:
    old = temporary / f"advisor-scratch-{os.getpid()}-old"
    old.mkdir()
    os.utime(old, (time.time() + 3600 * hours,) * 2)
    with Scratch():
        assert not old.exists()


@pytest.mark.integration
def test_the_folder_of_a_killed_process_is_removed(temporary: Path) -> None:
    script = "import os; from advisor.isolation import Scratch; Scratch(); os.kill(os.getpid(), 9)"
    killed = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", script], env=killed, check=False)
    assert len(left(temporary)) == 1
    sweep_folders()
    assert left(temporary) == []


def test_a_job_begins_beside_others_where_what_it_takes_is_free_and_alone_always() -> None:
    room = MemoryGate(lambda: 2 * GB + KEPT_FREE_BYTES)
    assert room.admits(2 * GB, running=1)
    assert not room.admits(2 * GB + 1, running=1)
    assert MemoryGate(lambda: 0).admits(100 * GB, running=0)


def test_what_began_just_now_counts_until_it_has_grown() -> None:
    now = [0.0]
    room = MemoryGate(lambda: 3 * GB + KEPT_FREE_BYTES, lambda: now[0])
    room.note_start(2 * GB)
    assert not room.admits(2 * GB, running=1)
    now[0] = GROWS_S + 1
    assert room.admits(2 * GB, running=1)


@with_cases
def test_free_memory_is_within_limits(tmp_path: Path, listing: str, files: dict[str, str], left: int | None) -> None:
    (tmp_path / "listing").write_text(listing)
    for name, text in files.items():
        write_file(tmp_path / name, text + "\n")
    assert _read_cgroup_room(tmp_path, tmp_path / "listing") == (NO_LIMIT if left is None else left)
    assert free_bytes() > 0


@with_cases
def test_a_quota_of_cpu_time_grants_fewer_processors(
    tmp_path: Path, listing: str, files: dict[str, str], cores: float | None
) -> None:
    (tmp_path / "listing").write_text(listing)
    for name, text in files.items():
        write_file(tmp_path / name, text + "\n")
    assert read_quota_cores(tmp_path, tmp_path / "listing") == cores


def test_work_is_refused_before_it_begins_with_what_it_needs_and_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "free_bytes", lambda: 300_000_000)
    host.require_memory("a plan", 150_000_000, 0)
    with pytest.raises(UsageError, match="a search needs 850.0 MB of memory and 2.0 GB of addresses: 300.0 MB are"):
        host.require_memory("a search", 850_000_000, 2_000_000_000)


async def _failing() -> None:
    raise ValueError("refused")


def test_it_runs_where_an_event_loop_runs_already_and_its_error_is_raised() -> None:
    async def inside() -> str:
        return run_coroutine(asyncio.sleep(0.0, "done"))

    assert asyncio.run(inside()) == "done"
    must_fail(ValueError, "refused", run_coroutine, _failing())


@pytest.mark.integration
@pytest.mark.parametrize(("timeout_s", "least"), [(5.0, 2.5), (0.0, MOST_SLOWDOWN)])
def test_jobs_that_wait_tell_by_how_much(monkeypatch: pytest.MonkeyPatch, timeout_s: float, least: float) -> None:
    monkeypatch.setattr("advisor.isolation._cores._PROBE_TIMEOUT_S", timeout_s)
    # Four jobs for each core: the machine may be busy beside the test, which makes them slower yet.
    assert least <= measure_slowdown(4 * usable_cores()) <= MOST_SLOWDOWN
