"""Objects of a store are copied into the cache once, and every fault of a store says what to do."""

import os
import re
import resource
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.api import check_data
from advisor.core import StageError, UsageError, _errors as errors, install_extra
from advisor.datasets import Survey
from advisor.store import cache_root, copy_from_store, in_store
from advisor.store._downloads import object_fetch as fetch, stores
from advisor.store._limit import evict_results
from benchmarks.hostile_surfaces.stores import PAGE, ROW, Store
from tests.builders import must_fail
from tests.datasets.folders import make
from tests.makers.stores import KEYS, S3, SECRET, Answer, cut, denied

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]

Request = tuple[str, str, str]
PAGE_OF_S3 = PAGE.replace("{rows}", ROW.format(key="animals/{key}.jpg", etag="1", size="1"))
PAGE_OF_GOOGLE = """{{"kind": "storage#objects", "nextPageToken": "{token}",
"items": [{{"name": "animals/{key}.jpg", "bucket": "photos", "size": "1", "etag": "1"}}]}}"""


def fetched(address: str, **options: bool | int) -> Path:
    return copy_from_store(Path(address), lambda _text: None, **options)  # type: ignore[arg-type]


def refused(address: str, **options: bool | int) -> UsageError:
    caught = must_fail(UsageError, "", fetched, address, **options)
    assert caught.hint
    assert SECRET not in f"{caught.message} {caught.hint}"
    return caught


@pytest.fixture
def photos(tmp_path: Path, s3: S3) -> Path:
    """A folder of photographs, which is in the store as ``s3://photos/animals``, too."""
    folder = make(tmp_path / "animals", cat=3, dog=2)
    s3.upload(folder, "photos/animals")
    s3.requests.clear()
    return folder


def test_objects_are_read_as_the_files_of_a_folder_and_fetched_once(s3: S3, photos: Path) -> None:
    assert "is not in the cache" in refused("s3://photos/animals", offline=True).message
    there = fetched("s3://photos/animals")
    read, plain = Survey.read(there).dataset, Survey.read(photos).dataset
    assert there.name == "animals"
    assert read.fingerprint == plain.fingerprint
    assert [read.show_path(each.path) for each in read.images] == [plain.show_path(each.path) for each in plain.images]
    assert len(s3.fetched) == 5
    assert fetched("s3://photos/animals/") == there
    assert s3.fetched == []
    assert evict_results(cache_root(), 0).count == 0, "this process uses the copy"
    assert fetched("s3://photos/animals", offline=True) == there
    assert s3.requests == []


def test_google_cloud_storage_is_read_in_the_same_way(tmp_path: Path, gs: Callable[[str, bytes], None]) -> None:
    folder = make(tmp_path / "animals", cat=2, dog=2)
    for file in folder.rglob("*.jpg"):
        gs(f"photos/animals/{file.relative_to(folder)}", file.read_bytes())
    assert Survey.read(fetched("gs://photos/animals")).dataset.fingerprint == Survey.read(folder).dataset.fingerprint
    assert "(did you mean 'animals'?)" in refused("gs://photos/animal").hint


def test_a_file_in_the_store_is_a_file_here_and_a_bucket_a_folder(tmp_path: Path, s3: S3, photos: Path) -> None:
    with zipfile.ZipFile(tmp_path / "animals.zip", "w") as packed:
        for file in photos.rglob("*.jpg"):
            packed.write(file, file.relative_to(photos))
    s3.put("packed/animals.zip", (tmp_path / "animals.zip").read_bytes())
    for address in ("s3://packed/animals.zip", "s3://packed"):
        assert len(Survey.read(fetched(address)).dataset.images) == 5
    deepest = fetched("s3://photos/**")
    assert deepest.parent.name == "photos"
    assert Survey.read(deepest).dataset.classes == ("cat", "dog")


def test_an_object_that_changed_is_noticed_and_fetched_alone(s3: S3, photos: Path) -> None:
    before = fetched("s3://photos/animals")
    old = (before / "cat" / "000.jpg").read_bytes()
    s3.put("photos/animals/cat/000.jpg", old[::-1])  # the same size, so the ETag alone tells
    s3.requests.clear()
    after = fetched("s3://photos/animals")
    assert s3.fetched == ["/photos/animals/cat/000.jpg"]
    assert (after / "cat" / "000.jpg").read_bytes() == old[::-1]
    assert (before / "cat" / "000.jpg").read_bytes() == old
    assert (before / "dog" / "100.jpg").samefile(after / "dog" / "100.jpg")


@pytest.mark.parametrize("kind", ["s3", "gs", "s3 that lists no ETags"])
def test_an_object_that_changes_between_two_steps_of_its_fetch_is_refused(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(fetch, "STEP_BYTES", 1000)
    monkeypatch.setattr(fetch, "SAID_EVERY_S", 0.0)
    store = request.getfixturevalue(kind[:2])
    put = store if kind == "gs" else store.put
    if kind.endswith("ETags"):
        store.fault = list_no_versions
    put("photos/animals/a.zip", b"a" * 3500)
    address = Path(f"{kind[:2]}://photos/animals")
    with pytest.raises(UsageError, match="changed meanwhile"):
        copy_from_store(address, lambda text: put("photos/animals/a.zip", b"b" * 3500) if "fetching" in text else None)
    assert (fetched(str(address)) / "a.zip").read_bytes() == b"b" * 3500


def list_no_versions(_request: Request, answer: Answer) -> Answer:
    """Take the versions out of a listing."""
    status, headers, body = answer
    return status, headers, re.sub(rb"<(ETag|LastModified)>.*?</\1>", b"", body).ljust(len(body))


def test_a_store_that_stops_is_asked_again_and_named(s3: S3, monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    monkeypatch.setattr(fetch, "STEP_BYTES", 1000)
    monkeypatch.setattr(fetch, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)  # it has pauses of its own
    data = os.urandom(3500)
    s3.put("photos/big/a.zip", data)
    s3.fault = lambda request, answer: cut(answer) if request[2].startswith("bytes=2000-") else answer
    error = refused("s3://photos/big/a.zip")
    assert error.message.startswith("--data: 's3://photos/big/a.zip' cannot be read: it stops after 2.0 kB of 3.5 kB")
    assert "what has arrived is not fetched again" in error.hint
    left = [True]

    def cut_once(request: Request, answer: Answer) -> Answer:
        return cut(answer) if request[2] and left and left.pop() else answer

    s3.fault = cut_once
    s3.requests.clear()
    assert fetched("s3://photos/big/a.zip").read_bytes() == data
    assert {part for _, _, part in s3.requests if part} == {"bytes=2000-2999", "bytes=3000-3499"}


def test_a_store_that_answers_403_names_the_bucket_and_what_to_set(s3: S3, photos: Path) -> None:
    s3.fault = lambda _request, _answer: denied()
    error = refused("s3://photos/animals")
    assert error.message == "--data: 's3://photos/animals' is refused by the store: Access Denied"
    assert "AWS_PROFILE" in error.hint
    s3.fault = lambda request, answer: denied() if request[1].endswith("/001.jpg") else answer
    assert refused("s3://photos/animals").message.startswith("--data: 's3://photos/animals/cat/001.jpg' is refused")


def test_without_credentials_the_error_says_which_to_set(s3: S3, monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = refused("s3://photos/animals")
    assert "Unable to locate credentials" in error.message
    assert "FSSPEC_S3_ANON=true" in error.hint


def test_an_address_without_objects_names_the_nearest_one(s3: S3, photos: Path) -> None:
    for address, near in (("s3://photos/animal", "(did you mean 'animals'?)"), ("s3://fotos/animals", "")):
        error = refused(address)
        assert error.message == f"--data: '{address}' names no object"
        assert near in error.hint


def test_a_store_that_is_not_there_is_named(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    error = refused("s3://photos/animals")
    assert "cannot be read: Could not connect" in error.message
    assert "check the connection" in error.hint


@pytest.mark.parametrize(
    "address", [f"s3://me:{SECRET}@photos/animals", f"s3://photos/animals?X-Amz-Signature={SECRET}", "s3://A b/c"]
)
def test_an_address_with_credentials_or_without_a_bucket_is_refused_and_shows_no_secret(address: str) -> None:
    assert "is no address of a bucket" in refused(address).message


@pytest.mark.parametrize(("address", "package"), [("s3://photos", "s3fs"), ("gs://photos", "gcsfs")])
def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, address: str, package: str) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda _name: None)
    error = refused(address)
    assert error.message == f"--data: '{address}' is read by {package}, which is not installed"
    assert install_extra("stores") in error.hint


def test_a_fetch_says_how_far_it_is_and_what_leads_out(s3: S3, monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    monkeypatch.setattr(fetch, "SAID_EVERY_S", 0.0)
    for name in ("../../evil.jpg", "cat//9.jpg", "./cat/9.jpg", "cat", f"{'x' * 300}.jpg", ".hidden/1.jpg", "cat/"):
        s3.put(f"photos/animals/{name}", b"evil")
    said: list[str] = []
    there = copy_from_store(Path("s3://photos/animals"), said.append)
    names = sorted(file.name for file in there.parent.rglob("*") if file.is_file())
    assert names == [".objects.json", "000.jpg", "001.jpg", "002.jpg", "100.jpg", "101.jpg"]
    assert not list(cache_root().rglob("evil.jpg"))
    assert said[0] == "listing s3://photos/animals"
    assert any("left out 5 objects whose names no file can have" in text for text in said)
    assert any(text.startswith("fetching s3://photos/animals: ") and text.endswith(" left") for text in said)


def test_more_than_cache_or_disk_can_hold_is_not_fetched(s3: S3, monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    error = refused("s3://photos/animals", cache_size=1000)
    assert "and the limit of the cache is 1.0 kB" in error.message
    assert "--cache-size" in error.hint
    usage = stores.shutil.disk_usage(cache_root())
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda _path: usage._replace(free=1000))
    assert "the disk of the cache has 1.0 kB free" in refused("s3://photos/animals").message
    assert s3.fetched == []


def test_a_full_disk_leaves_what_has_arrived_for_the_next_try(s3: S3, photos: Path) -> None:
    s3.put("photos/animals/zebra/1.jpg", os.urandom(50_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        must_fail(StageError, "the disk is full", fetched, "s3://photos/animals")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    s3.requests.clear()
    assert len(list(fetched("s3://photos/animals").rglob("*.jpg"))) == 6
    assert s3.fetched == ["/photos/animals/zebra/1.jpg"]
    assert not list((cache_root() / "partial").glob("objects-*[0-9a-f]"))


def test_a_check_of_images_names_the_address_and_lists_no_copies(s3: S3, photos: Path, tmp_path: Path) -> None:
    checked = check_data("s3://photos/animals", labels=False)
    assert checked.to_json()["data"] == "s3://photos/animals"
    assert checked.survey.dataset.counts == (3, 2)
    with pytest.raises(UsageError, match="--fix: a manifest would name copies"):
        check_data("s3://photos/animals", labels=False, fix=tmp_path / "clean.csv")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store that has one more page for ever."""
    pytest.importorskip("s3fs", reason="s3fs is an extra")
    store = Store()
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": store.url, "STORAGE_EMULATOR_HOST": store.url}.items():
        monkeypatch.setenv(name, value)
    yield store
    store.close()


@pytest.mark.parametrize(("kind", "page"), [("s3", PAGE_OF_S3), ("gs", PAGE_OF_GOOGLE)])
@pytest.mark.parametrize(("token", "key"), [("t", "{0}"), ("t{1}", "{0}"), ("t{0}", "1"), ("t{0}", "{1}")])
def test_a_listing_that_repeats_a_page_is_an_error(store: Store, kind: str, page: str, token: str, key: str) -> None:
    store.wrong = {"more": "true", "pattern": page, "token": token, "key": key}
    assert "it repeats a page of its listing" in refused(f"{kind}://photos/animals").message


@pytest.mark.parametrize(("path", "is_address"), [("s3", False), ("gs/photos", False), ("s3:/bucket/photos", True)])
def test_a_folder_may_have_the_name_of_a_kind_of_store(path: str, is_address: bool) -> None:
    assert in_store(Path(path)) is is_address
    assert is_address or fetched(path) == Path(path)
