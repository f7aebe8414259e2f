import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from advisor.core import StageError
from advisor.integrations.ray import _node as ray_node
from advisor.integrations.ray._file_transfer import FileRef, Outgoing, bundle_key, read_contents, replace_paths
from advisor.training import TrainingStart
from tests.builders import must_fail, present
from tests.integrations.ray.jobs import Named, fill, join


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of another machine."""
    folder = tmp_path / "there"
    folder.mkdir()
    monkeypatch.setattr(ray_node, "open_spool", lambda: folder)
    return folder


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, ...]:
    files = tuple(tmp_path / "here" / name for name in ("a", "b", "c & 'd'"))
    files[0].parent.mkdir()
    for file in files:
        file.write_text(f"<{file.name}>")
    return files


class Sender:
    """Sends by handing on, and counts."""

    def __init__(self) -> None:
        self.sent = self.fetched = 0

    def send(self, _key: str, paths: Sequence[Path]) -> Any:
        self.sent += 1
        return read_contents(paths)

    def fetch(self, bundle: Any) -> Any:
        self.fetched += 1
        return bundle


def called(
    sender: Sender, outgoing: Outgoing, *arguments: Any, function: Callable[..., object] = join
) -> ray_node.CallResult:
    packed: Any = outgoing.pack(arguments)
    return ray_node.run_with_files(lambda given: function(*given), "session", packed, outgoing.bundles, sender.fetch)


def test_files_go_there_and_what_is_made_comes_back(parts: tuple[Path, ...], there: Path, tmp_path: Path) -> None:
    sender, out = Sender(), tmp_path / "result"
    outgoing = Outgoing(sender.send, None)
    found = called(sender, outgoing, parts[:2], Named(parts[2], "weights"), out)
    assert found.value == ["a", "b", "c & 'd'"]
    assert not out.exists()
    outgoing.unpack(found.files)
    assert out.read_text() == "<a><b><c & 'd'>"
    assert not list(there.rglob("out-*"))


def test_what_lies_there_or_is_shared_is_not_sent(parts: tuple[Path, ...], there: Path, tmp_path: Path) -> None:
    sender = Sender()
    for name in ("first", "second"):
        called(sender, Outgoing(sender.send, None), parts[:2], Named(parts[2], "weights"), tmp_path / name)
    assert sender.fetched == 2
    sender, out = Sender(), tmp_path / "result"
    outgoing = Outgoing(sender.send, tmp_path.resolve())
    called(sender, outgoing, parts[:2], Named(parts[2], "weights"), out)
    assert (sender.sent, out.read_text()) == (0, "<a><b><c & 'd'>")


def test_a_file_that_changed_is_another_one(parts: tuple[Path, ...]) -> None:
    before = bundle_key(parts)
    parts[0].write_text("<changed>")
    assert bundle_key(parts) != before


def test_a_failure_comes_back_as_it_was(parts: tuple[Path, ...], there: Path) -> None:
    def fail(_: Any) -> None:
        raise StageError("not this one", "another")

    error = present(ray_node.run_with_files(fail, "session", (), {}, lambda bundle: bundle).error)
    assert (error.message, error.hint) == ("not this one", "another")


def test_a_folder_is_filled(parts: tuple[Path, ...], there: Path, tmp_path: Path) -> None:
    folder = tmp_path / ".making-1"
    folder.mkdir()
    outgoing = Outgoing(Sender().send, None)
    found = called(Sender(), outgoing, parts[0], folder, function=fill)
    assert not list(folder.iterdir())
    outgoing.unpack(found.files)
    written = {file.name: file.read_text() for file in folder.iterdir()}
    assert written == {"rows": "rows of <a>", "names": "names of <a>"}


def test_a_file_that_a_job_writes_beside_its_result_comes_back_with_it(there: Path, tmp_path: Path) -> None:
    def two_files(path: Path) -> None:
        path.write_text("head")
        path.with_name("answers").write_text("of the head")

    outgoing = Outgoing(Sender().send, None)
    outgoing.unpack(called(Sender(), outgoing, tmp_path / "head", function=two_files).files)
    assert [(tmp_path / name).read_text() for name in ("head", "answers")] == ["head", "of the head"]


def test_shards_of_weights_travel_with_the_file_that_names_them(there: Path, tmp_path: Path) -> None:
    folder = tmp_path / ("0" * 64)
    folder.mkdir()
    for name in ("model.json", "shard1"):
        (folder / name).write_text(name)

    def shard(weights: Named) -> str:
        return (weights.path.parent / "shard1").read_text()

    named = Named(folder / "model.json", "weights")
    assert called(Sender(), Outgoing(Sender().send, None), named, function=shard).value == "shard1"


def test_checkpoints_stay_from_one_try_to_the_next(there: Path, tmp_path: Path) -> None:
    outgoing = Outgoing(Sender().send, None)
    for _ in range(2):
        kept = called(Sender(), outgoing, tmp_path / "abc.checkpoints", function=lambda path: path).value
        assert kept == there / "session" / "abc.checkpoints"


def test_what_holds_no_path_is_handed_on_as_it_is() -> None:
    value = {"a": (1, [2.0, "c"]), "b": Named, "c": TrainingStart()}
    assert replace_paths(value, lambda paths: [FileRef("x", 0)] * len(paths), Path) is value
    assert replace_paths(TrainingStart(Path("a"), 0.5), lambda _: [FileRef("x", 0)], Path)[:2] == (FileRef("x", 0), 0.5)


def test_tidying_takes_the_files_of_a_search_away(there: Path) -> None:
    (there / "session").mkdir()
    (there / "other").mkdir()
    ray_node.tidy_spool("session")
    assert [folder.name for folder in there.iterdir()] == ["other"]


def test_a_link_in_the_place_of_the_spool_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"advisor-{os.getuid()}").symlink_to("elsewhere")
    must_fail(PermissionError, "is a link", ray_node.open_spool)
