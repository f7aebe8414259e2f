"""Many cards' weights at once, from a real server and a mirror folder, into the cache."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog.listing import fetch_all
from advisor.catalog.weights.fetching import fetch
from advisor.downloads.files import FetchOptions, MemberFile
from tests.catalog.conftest import Shelf
from tests.catalog.weights.conftest import CONTENT, card, home, sha256


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A folder with the weights."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "tiny.h5").write_bytes(CONTENT)
    return folder


@pytest.fixture(autouse=True)
def plain_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no settings of pip, no mirror."""
    for name in ("ADVISOR_MIRROR", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.integration
def test_what_can_be_had_is_kept_and_the_rest_is_told(shelf: Shelf, tmp_path: Path) -> None:
    there = replace(card(home(shelf.put("/tiny.h5", CONTENT))), name="there")
    gone = replace(card(home(f"{shelf.url}/gone/tiny.h5", b"something else")), name="gone")
    bare = replace(card(), name="bare")
    options = FetchOptions(cache=tmp_path / "cache")
    fetched = fetch_all([there, gone, bare], options)
    assert [(entry.card, entry.cached) for entry in fetched] == [("there", True), ("gone", False), ("bare", False)]
    assert fetched[0].path is not None
    assert fetched[0].path.read_bytes() == CONTENT
    assert "404" in fetched[1].reason
    assert "no source" in fetched[2].reason


def test_a_mirror_fills_the_cache_without_a_socket(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    wanted = card(home("https://example.org/tiny.h5"))
    mirrored = FetchOptions(offline=True, mirror=mirror, cache=tmp_path / "cache")
    (fetched,) = fetch_all([wanted], mirrored)
    assert fetched.cached
    assert fetched.source.startswith("mirror")
    alone = fetch(wanted, FetchOptions(offline=True, cache=tmp_path / "cache"))
    assert (alone.source, alone.sha256) == ("cache", sha256(CONTENT))


def test_a_file_whose_hash_nobody_knows_is_used_from_the_mirror_and_not_kept(mirror: Path, tmp_path: Path) -> None:
    unknown = replace(home("https://example.org/tiny.h5"), file=MemberFile("tiny.h5"))
    (fetched,) = fetch_all([card(unknown)], FetchOptions(mirror=mirror, cache=tmp_path / "cache"))
    assert not fetched.cached
    assert "not kept" in fetched.reason


def test_a_mirror_with_another_file_of_that_name_is_told_with_both_hashes(mirror: Path, tmp_path: Path) -> None:
    (mirror / "tiny.h5").write_bytes(b"another")
    options = FetchOptions(offline=True, mirror=mirror, cache=tmp_path / "cache")
    (fetched,) = fetch_all([card(home("https://example.org/tiny.h5"))], options)
    assert sha256(b"another") in fetched.reason
    assert sha256(CONTENT) in fetched.reason
    assert (mirror / "tiny.h5").read_bytes() == b"another"
