"""Handles of TensorFlow Hub as a user's own models: one becomes a card, others are refused."""

from __future__ import annotations

import importlib.util
import io
import tarfile
from pathlib import Path

import pytest

from advisor.catalog import public
from advisor.catalog.user_models import handles
from advisor.catalog.user_models.handles import LocalModel, folder_sha256, local_source
from advisor.core.errors import UsageError
from tests.catalog.conftest import Answer, Shelf
from tests.catalog.user_models.models import labels_file, network
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration

HANDLE = "/google/imagenet/mobilenet_v9_100_224/classification/5"
ASKED = f"{HANDLE}?tf-hub-format=compressed"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel as the hub has one."""
    if importlib.util.find_spec(handles.PACKAGE) is None:
        skip_or_fail("tensorflow-hub is not installed")
    folder = tmp_path_factory.mktemp("hub") / "net"
    network().export(folder, verbose=False)
    return folder


@pytest.fixture
def served(shelf: Shelf, saved: Path) -> Shelf:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.add(saved, ".")
    shelf.put(ASKED, Answer(status=302, headers={"Location": f"{shelf.url}/store/net.tar.gz"}))
    shelf.put("/store/net.tar.gz", out.getvalue())
    return shelf


def test_a_handle_becomes_a_card_that_names_it_with_its_hash(served: Shelf, saved: Path, tmp_path: Path) -> None:
    handle = f"{served.url}{HANDLE}#sha256={folder_sha256(saved)}"
    labels = labels_file(tmp_path)
    added = public.add(handle, labels=labels, mean=(127.5,), std=(127.5,), into=tmp_path / "own.yaml")
    assert added.card.name == "mobilenet_v9_100_224_classification_5"
    assert added.card.note == f"made from {handle}"
    assert added.model.is_file()


def test_files_with_another_hash_are_refused_before_they_are_read(served: Shelf, saved: Path) -> None:
    wanted = "0" * 64
    with (
        pytest.raises(UsageError, match=f"have sha256 {folder_sha256(saved)}, expected {wanted}"),
        local_source(f"{served.url}{HANDLE}#sha256={wanted}"),
    ):
        pytest.fail("it was resolved")


def test_without_the_package_the_extra_and_another_way_are_named(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "PACKAGE", "tensorflow_hub_that_is_missing")
    with pytest.raises(UsageError, match=r"ondevice-advisor\[hub\]") as raised, local_source(shelf.url + HANDLE):
        pytest.fail("it was resolved")
    assert "advisor catalog add FOLDER" in raised.value.hint


def test_a_folder_needs_no_package(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "PACKAGE", "tensorflow_hub_that_is_missing")
    with local_source(saved) as found:
        assert found == LocalModel(saved)


def test_the_hash_of_a_folder_is_that_of_its_names_and_contents(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name / "variables").mkdir(parents=True)
        (tmp_path / name / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "three" / "saved_model.pb").rename(tmp_path / "three" / "variables" / "saved_model.pb")
    one, two, three = (folder_sha256(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two != three
