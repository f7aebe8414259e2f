"""Handles of TensorFlow Hub: one becomes a card; as a real server on this machine plays it, others are refused."""

import contextlib
import importlib.util
import io
import re
import socket
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from advisor import catalog
from advisor.catalog._user_models import handles
from advisor.catalog._user_models.handles import folder_sha256, local_source
from advisor.core import StageError, UsageError, install_extra
from advisor.isolation import CallLimits
from advisor.store import Unavailable
from tests.builders import must_fail
from tests.catalog.user_models.models import labels_file, network
from tests.makers.servers import Answer, Shelf
from tests.requirements import skip_or_fail

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_settings")]

HANDLE = "/google/imagenet/mobilenet_v1_025_32/classification/5"
ASKED = f"{HANDLE}?tf-hub-format=compressed"
MEMBERS = ("variables/variables.index", "variables/variables.data-00000-of-00001")
FILES = {name: f"{name} ".encode() * 500 for name in MEMBERS}
NOISE = np.random.default_rng(0).bytes(400_000)
"""Stand-ins for a SavedModel's variables."""


@pytest.fixture(scope="module", autouse=True)
def package() -> None:
    if importlib.util.find_spec(handles.PACKAGE) is None:
        skip_or_fail("tensorflow-hub is not installed")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The settings of a child that resolves handles, in this process."""
    resolver = pytest.importorskip("tensorflow_hub.resolver")
    monkeypatch.setattr(resolver, "DownloadManager", resolver.DownloadManager)
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "hub"))
    timeout = socket.getdefaulttimeout()
    yield
    socket.setdefaulttimeout(timeout)


def packed(members: Mapping[str, bytes], special: bytes = b"") -> bytes:
    """A tar.gz as the hub sends it; the second member of a model may be of a ``special`` type."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for folder in (".", "./variables"):
            info = tarfile.TarInfo(folder)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        for name, data in members.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        if special:
            info = tarfile.TarInfo(MEMBERS[1])
            info.type, info.linkname = special, "/etc/passwd"
            archive.addfile(info)
    return out.getvalue()


def test_a_slow_server_ends_at_the_time_limit(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "HUB_LIMITS", CallLimits(seconds=0.5))
    shelf.put(ASKED, Answer(raw=b"HTTP/1.1 200 OK\r\n\r\n", drip_s=0.05))
    with (
        pytest.raises(Unavailable, match=r"mobilenet_v1_025_32.*timed out"),
        handles.resolve_handle(shelf.url + HANDLE),
    ):
        pass


def test_a_handle_that_does_not_exist_is_named_with_the_answer(hub: None, shelf: Shelf) -> None:
    must_fail(StageError, "the server answers 404", handles.download, shelf.url + HANDLE)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"<html>a page about this model</html>", "does not appear to be a valid module"),
        (Answer(packed(dict.fromkeys(MEMBERS, NOISE)), cut_after=300_000), "tensorflow-hub: "),
        (packed({MEMBERS[0]: FILES[MEMBERS[0]]}, tarfile.SYMTYPE), "tensorflow-hub: "),
        (packed({"variables/../../escaped": b"x", **FILES}), r"Relative path .* is invalid"),
        (packed({"variables/zeros": bytes(10_000_000)}), r"more than 9\.0 MB when unpacked"),
    ],
)
def test_an_answer_that_is_no_archive_is_refused(hub: None, shelf: Shelf, answer: Answer | bytes, said: str) -> None:
    shelf.put(ASKED, answer)
    must_fail(StageError, said, handles.download, shelf.url + HANDLE, 9_000_000)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "net"
    network().export(folder, verbose=False)
    return folder


@pytest.mark.usefixtures("own_folders", "in_process")
def test_a_handle_is_asked_for_its_archive_and_becomes_a_card_that_names_it_with_its_hash(
    shelf: Shelf, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.add(saved, ".")
    shelf.put(ASKED, Answer(status=302, headers={"Location": f"{shelf.url}/store/net.tar.gz"}))
    shelf.put("/store/net.tar.gz", out.getvalue())
    handle = f"{shelf.url}{HANDLE}#sha256={folder_sha256(saved)}"
    labels = labels_file(tmp_path)
    added = catalog.add(handle, labels=labels, mean=(127.5,), std=(127.5,), into=tmp_path / "own.yaml")
    assert added.card.name == "mobilenet_v1_025_32_classification_5"
    assert added.card.note == f"made from {handle}"
    assert added.model.is_file()
    assert list((tmp_path / "temporary").rglob("saved_model.pb")) == []


@pytest.fixture
def resolved(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every handle is that of ``saved``."""
    monkeypatch.setattr(handles, "resolve_handle", lambda _: contextlib.nullcontext(saved))


def test_files_with_another_hash_are_refused_before_they_are_read(resolved: None, saved: Path) -> None:
    wanted = "0" * 64
    with (
        pytest.raises(UsageError, match=f"have sha256 {folder_sha256(saved)}, expected {wanted}"),
        local_source(f"http://127.0.0.1{HANDLE}#sha256={wanted}"),
    ):
        pytest.fail("it was resolved")


def test_without_the_package_the_extra_and_another_way_are_named(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "PACKAGE", "tensorflow_hub_that_is_missing")
    with pytest.raises(UsageError, match=re.escape(install_extra("hub"))) as raised, local_source(shelf.url + HANDLE):
        pytest.fail("it was resolved")
    assert "advisor catalog add FOLDER" in raised.value.hint
    assert shelf.requests == []


def test_the_hash_of_a_folder_is_that_of_its_names_and_contents(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name / "variables").mkdir(parents=True)
        (tmp_path / name / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "three" / "saved_model.pb").rename(tmp_path / "three" / "variables" / "saved_model.pb")
    one, two, three = (folder_sha256(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two != three
