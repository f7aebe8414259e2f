"""Temporary folders whose owner is gone are removed; those that are in use, or were made just now, are not."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.isolation import Scratch
from advisor.isolation.resources import sweep


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


def test_what_is_abandoned_goes_without_a_new_folder(temporary: Path) -> None:
    (temporary / "advisor-scratch-999999999-dead").mkdir()
    sweep()
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
def test_a_folder_of_a_process_id_that_was_given_again_is_removed_whatever_the_clock(
    temporary: Path, hours: int
) -> None:
    old = temporary / f"advisor-scratch-{os.getpid()}-old"
    old.mkdir()
    os.utime(old, (time.time() + 3600 * hours,) * 2)
    with Scratch():
        assert not old.exists()


@pytest.mark.integration
def test_the_folder_of_a_killed_process_is_removed_by_the_next_start(temporary: Path) -> None:
    script = "import os; from advisor.isolation import Scratch; Scratch(); os.kill(os.getpid(), 9)"
    killed = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", script], env=killed, check=False)
    assert len(left(temporary)) == 1
    with Scratch() as folder:
        assert left(temporary) == [folder]
