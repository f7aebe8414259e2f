"""What tests share is made once, by one of several processes, and nobody changes it."""

import multiprocessing
from pathlib import Path

from tests.makers.once import changed_things, make_once


def _write(folder: Path) -> None:
    """Write one more line to a file beside the folder, and a file into it."""
    with (folder.parent / "made.txt").open("a") as log:
        log.write("made\n")
    (folder / "model.bin").write_bytes(b"weights")


def test_two_processes_make_it_once(starts_processes: None, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=make_once, args=(tmp_path / "thing", _write)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "made.txt").read_text() == "made\n"


def test_what_a_killed_process_had_begun_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "half.bin").write_bytes(b"wei")
    make_once(tmp_path / "thing", _write)
    assert [path.name for path in (tmp_path / "thing").iterdir()] == ["model.bin"]


def test_what_a_test_changed_is_named(tmp_path: Path) -> None:
    folder = make_once(tmp_path / "thing", _write)
    assert changed_things(tmp_path) == []
    (folder / "model.bin").write_bytes(b"others")
    (folder / "more.bin").write_bytes(b"")
    assert changed_things(tmp_path) == [str(folder / "model.bin"), str(folder / "more.bin")]
