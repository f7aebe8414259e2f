import errno
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import UsageError
from advisor.store import ArtifactCache, RunFolder, _run_folder as run_folder, sha256_json
from tests.builders import CHARACTERS, evaluation, must_fail
from tests.run_folders import with_artefact
from tests.tables import read_table

NOW = datetime(2026, 1, 31, 12, 0, 0)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(CHARACTERS, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "runs", "TrashNet, 50ms", NOW)
    folder.write_request({"budget": "50ms"})
    return folder


def test_the_folder_is_named_by_date_and_slug_and_two_of_a_second_do_not_meet(run: RunFolder, tmp_path: Path) -> None:
    assert run.path.name == "20260131-120000-trashnet-50ms"
    other = RunFolder.create(tmp_path / "runs", "TrashNet, 50ms", NOW)
    assert (tmp_path / "runs" / "latest").resolve() == other.path != run.path


def test_evaluations_come_back_the_last_of_each_configuration(run: RunFolder) -> None:
    for one in (evaluation(accuracy=70), evaluation("other"), evaluation(accuracy=75)):
        run.append(with_artefact(run, one))
    accuracies = [e.accuracy.value for e in run.evaluations() if e.accuracy]
    assert accuracies == [75, 80]


def test_a_reason_with_a_line_break_stays_one_line(run: RunFolder) -> None:
    run.append(replace(evaluation(), reason="two\nlines"))
    assert len(run.evaluations_file.read_text().splitlines()) == 1


def test_a_folder_that_is_no_run_and_one_of_a_newer_schema_are_refused(tmp_path: Path, run: RunFolder) -> None:
    must_fail(UsageError, "is not a run folder", RunFolder.open, tmp_path)
    (run.path / "request.yaml").write_text("schema_version: 99\n")
    must_fail(UsageError, "newer advisor", RunFolder.open, run.path)


@pytest.mark.integration
def test_a_second_process_on_one_run_is_told_who_holds_it(run: RunFolder) -> None:
    with run.hold():
        code = read_table(__file__, "programs.yaml")["hold_a_run"]
        done = subprocess.run([sys.executable, "-c", code, str(run.path)], capture_output=True, text=True, check=True)
    assert f"is in use by process {os.getpid()}" in done.stdout


def test_an_artefact_written_in_part_is_replaced_and_its_source_untouched(run: RunFolder, tmp_path: Path) -> None:
    source = tmp_path / "model.tflite"
    source.write_bytes(b"TFL3 whole")
    (run.artefacts / "a.tflite").write_bytes(b"TFL3")
    assert run.keep_artefact(source, "a.tflite") == run.artefacts / "a.tflite"
    assert (run.artefacts / "a.tflite").read_bytes() == b"TFL3 whole"
    assert source.read_bytes() == b"TFL3 whole"
    assert [file.name for file in run.artefacts.iterdir()] == ["a.tflite"]


@pytest.mark.integration
def test_files_that_a_killed_process_was_writing_are_removed_when_the_run_is_taken_up(run: RunFolder) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = run.path / f".report.html-{process.pid}-abcd1234"
    living = run.path / f".report.html-{os.getpid()}-abcd1234"
    for file in (dead, living):
        file.write_text("half")
    with run.hold():
        assert (dead.exists(), living.exists()) == (False, True)


def test_a_folder_that_cannot_be_written_and_a_search_without_its_question_are_usage_errors(tmp_path: Path) -> None:
    begun = RunFolder.create(tmp_path / "runs", "x")
    must_fail(UsageError, "was ended before it began", RunFolder.open, begun.path)
    (tmp_path / "file").write_text("")
    for is_latest, said in ((True, "--out: cannot write to the folder"), (False, "^cannot write to the folder")):
        must_fail(UsageError, said, RunFolder.create, tmp_path / "file" / "runs", "x", is_latest=is_latest)
    with pytest.raises(UsageError, match=r"-x' cannot be written \(Read-only"), begun.require_writable():
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("name", ["log.txt", "answers/a.npy", "artifacts/new/a.tflite", "answers"])
def test_a_link_out_of_the_run_and_a_pipe_are_found_at_every_level(run: RunFolder, tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").mkdir()
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).symlink_to(tmp_path / "precious")
    must_fail(UsageError, rf"is damaged: {name} is neither a file nor a folder in it", RunFolder.open, run.path)
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    must_fail(UsageError, rf"is damaged: {name} is neither a file nor a folder in it", RunFolder.open, run.path)


def test_a_file_that_a_search_replaces_does_no_damage_to_it(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = [(str(run.path), [], ["request.yaml", ".progress.json-1-gone"])]
    monkeypatch.setattr(os, "walk", lambda _path, **_options: iter(walked))
    assert RunFolder.open(run.path).path == run.path


WRITERS: dict[str, Callable[[RunFolder], object]] = {
    "evaluations.jsonl": lambda run: run.append(evaluation()),
    "manifest.json": lambda run: run.write_json("manifest.json", {}),
    "request.yaml": lambda run: run.write_request({}),
    "answers/a.npy": lambda run: run.keep_answers("a", [1]),
    "artifacts/a.tflite": lambda run: run.keep_artefact(run.path / "request.yaml", "a.tflite"),
    ".holder": lambda run: run.hold().release(),
    ".lock": lambda run: run.hold().release(),
}


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_through_a_link_that_came_later(run: RunFolder, tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("keep")
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(tmp_path / "precious")
    must_fail(UsageError, f"{name} is a link", WRITERS[name], run)
    assert (tmp_path / "precious").read_text() == "keep"


def test_nothing_is_written_into_a_folder_that_is_a_link(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (run.path / "answers").symlink_to(tmp_path / "precious")
    must_fail(UsageError, "answers is a link", run.keep_answers, "a", [1])
    assert not [*(tmp_path / "precious").iterdir()]


@pytest.mark.parametrize("before", ["../", "/"])
def test_a_name_that_leads_out_of_the_run_is_refused(run: RunFolder, tmp_path: Path, before: str) -> None:
    with pytest.raises(UsageError, match="leads out of the run folder"):
        run.share(run.path / "request.yaml", f"{before}{tmp_path}/a.tflite")
    assert not (tmp_path / "a.tflite").exists()


@pytest.mark.parametrize("most", [run_folder.KEPT_BYTES, 0])
def test_a_document_is_read_again_once_changed(run: RunFolder, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(run_folder, "KEPT_BYTES", most)
    other = RunFolder(run.path)
    other.write_json("split.json", {"classes": ["cat"]})
    assert run.read_json("split.json")["classes"] == ["cat"]
    other.write_json("split.json", {"classes": ["dog"]})
    assert run.read_json("split.json")["classes"] == ["dog"]
    other.write_json("manifest.json", {})
    assert run.read_json("split.json")["classes"] == ["dog"]
    (run.path / "split.json").write_text('{"classes": ["cat"]}')
    assert run.read_json("split.json") == {}


def test_answers_are_kept_as_labels_and_shares_as_numbers(run: RunFolder) -> None:
    files = run.keep_answers("labels", [2, 0, 1]), run.keep_answers("shares", [0.5, -0.25, 1.0])
    assert files == ("answers/labels.npy", "answers/shares.npy")
    labels, shares = (np.load(run.path / file) for file in files)
    assert (labels.dtype, labels.tolist()) == (np.int32, [2, 0, 1])
    assert (shares.dtype, shares.tolist()) == (np.float32, [0.5, -0.25, 1.0])


def test_a_run_is_in_use_while_its_lock_is_held_and_the_lock_of_a_dead_holder_is_not_touched(run: RunFolder) -> None:
    assert not RunFolder(run.path).in_use()
    held = run.hold()
    assert RunFolder(run.path).in_use()
    held.release()
    assert not RunFolder(run.path).in_use()
    (run.path / ".holder").write_text(f"process {2**22 + 1}", encoding="utf-8")
    assert not RunFolder(run.path).in_use()
    held.release()


@pytest.mark.parametrize("name", [".lock", ".holder"])
def test_a_lock_that_is_no_file_of_the_run_is_not_touched(run: RunFolder, tmp_path: Path, name: str) -> None:
    run.hold().release()
    (tmp_path / "precious").write_text(f"process {os.getpid()}")
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(tmp_path / "precious")
    assert not RunFolder(run.path).in_use()
    assert (tmp_path / "precious").read_text() == f"process {os.getpid()}"
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    assert not RunFolder(run.path).in_use()


def write(text: str, path: Path) -> None:
    (path / "result").write_text(text)


def test_a_result_is_made_once_and_cannot_be_changed_in_place_by_accident(tmp_path: Path) -> None:
    cache, calls = ArtifactCache(tmp_path), list[Path]()

    def make(folder: Path) -> None:
        calls.append(folder)
        write("made", folder)

    first = cache.get("stage-1", {"a": 1}, make)
    assert cache.get("stage-1", {"a": 1}, make) == first
    assert (first / "result").read_text() == "made"
    assert len(calls) == 1
    folder = ArtifactCache(tmp_path).get("s", {}, lambda out: write("x", out))
    assert (folder / "result").stat().st_mode & 0o222 == 0


def test_every_input_is_part_of_the_key(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    folders = {cache.folder("s", inputs) for inputs in ({"a": 1}, {"a": 2}, {"a": 1, "b": None}, {"b": 1})}
    assert len(folders) == 4
    assert cache.folder("t", {"a": 1}) not in folders


@pytest.mark.integration
def test_two_processes_make_a_result_once(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom advisor.store import ArtifactCache\n"
        "def make(out):\n print('made'); time.sleep(0.2); (out / 'r').write_text('x')\n"
        "ArtifactCache(Path(sys.argv[1])).get('s', {'k': 1}, make)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert "".join(process.communicate()[0] for process in both).split() == ["made"]


def test_what_a_killed_process_left_half_made_goes_when_the_result_is_made(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    left = cache.root / "s" / f".making-{cache.folder('s', {}).name}-dead"
    left.mkdir(parents=True)
    cache.get("s", {}, lambda out: write("x", out))
    assert not left.exists()


def test_the_next_search_removes_what_nobody_makes_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    cache = ArtifactCache()
    left = cache.root / "s" / ".making-key-dead"
    left.mkdir(parents=True)

    def make(folder: Path) -> None:
        ArtifactCache.require_folder()
        write("x", folder)

    assert (cache.get("s", {}, make) / "result").is_file()
    assert not left.exists()


@settings(max_examples=15)
@given(st.dictionaries(st.text(CHARACTERS, max_size=5), json_values, max_size=4))
def test_the_key_does_not_depend_on_the_order_of_keys(value: dict[str, object]) -> None:
    assert sha256_json(value) == sha256_json(dict(reversed(value.items())))
