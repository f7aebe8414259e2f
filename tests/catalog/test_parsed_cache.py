"""Cards that were read before: the same cards, without reading the YAML again, and never anything else."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from advisor.catalog import Catalogue, _catalogue as catalogue, _parsed_cache as parsed_cache, _schema as schema
from advisor.core import UsageError
from advisor.store import shipped_folder
from tests.builders import must_fail, write_file
from tests.catalog.test_catalogue import GOOD

OTHER = json.dumps([[["team_net"]], [0]])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, for files of users alone."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(catalogue, "list_shipped_files", list)
    return tmp_path / "cache" / "catalogues"


def load_catalogue(files: Sequence[Path] = ()) -> Catalogue:
    catalogue._read_once.cache_clear()
    return Catalogue.load(files)


@pytest.fixture
def team(tmp_path: Path) -> Path:
    return write_file(tmp_path / "team.yaml", GOOD)


@pytest.fixture
def no_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a file is parsed."""

    def refuse(path: Path) -> None:
        raise AssertionError(f"{path} was parsed")

    monkeypatch.setattr(schema.YamlDocument, "read", refuse)


def test_the_second_time_no_file_is_parsed_for_the_same_cards(team: Path, request: pytest.FixtureRequest) -> None:
    files = [team, shipped_folder("catalogs") / "mobilenet_v1.yaml"]
    first = load_catalogue(files)
    request.getfixturevalue("no_yaml")
    assert dict(load_catalogue(files)) == dict(first)


def test_a_process_reads_a_file_once(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_catalogue([team])
    monkeypatch.setattr(catalogue, "recall_cards", None)
    assert Catalogue.load([team])["team_net"] is first["team_net"]


def test_a_changed_file_is_read_anew(team: Path) -> None:
    load_catalogue([team])
    team.write_text(GOOD.replace("macs: 200", "macs: 201"), encoding="utf-8")
    assert load_catalogue([team])["team_net"].macs == 201


def test_other_code_reads_anew(team: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    load_catalogue([team])
    monkeypatch.setattr(parsed_cache, "_hash_readers", lambda: "another version")
    request.getfixturevalue("no_yaml")
    must_fail(AssertionError, "was parsed", load_catalogue, [team])


def test_a_moved_catalogue_finds_its_own_files_where_it_is_now(tmp_path: Path) -> None:
    text = GOOD.replace("kind: url", "kind: file").replace("        url: https://example.org/net.h5\n", "")
    for folder in ("here", "there"):
        path = write_file(tmp_path / folder / "team.yaml", text)
        for _ in range(2):
            (source,) = load_catalogue([path])["team_net"].weights
            assert source.file.path == str(tmp_path / folder / "net.h5")


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda key, digest, body: f"{key}\n{digest}\n{body[:-5]}",
        lambda key, digest, body: f"{key}\n{digest}\n{body.replace('200', '300')}",
        lambda *_: "\xff\x00" * 50,
        lambda *_: "",
        lambda key, *_: f"{key}\n{parsed_cache._hash_text(OTHER)}\n{OTHER}",
    ],
    ids=["cut off", "a digit changed", "bytes", "empty", "another layout"],
)
def test_damage_is_ignored_and_replaced(team: Path, spoilt: Callable[..., str], request: pytest.FixtureRequest) -> None:
    first = load_catalogue([team])
    place = parsed_cache._locate_file(team)
    place.write_text(spoilt(*place.read_text(encoding="utf-8").split("\n", 2)), encoding="latin-1")
    assert dict(load_catalogue([team])) == dict(first)
    request.getfixturevalue("no_yaml")
    assert dict(load_catalogue([team])) == dict(first)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(team: Path, cache: Path) -> None:
    write_file(cache, "a file where the folder belongs")
    assert "team_net" in load_catalogue([team])
    assert "team_net" in load_catalogue([team])


def test_a_name_taken_twice_is_told_with_both_lines_from_remembered_files(team: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("# one line more\n" + GOOD, encoding="utf-8")
    for path in (team, other):
        load_catalogue([path])
    with pytest.raises(UsageError, match=r"other\.yaml:9: the name 'team_net' is already taken \(.*team\.yaml:8\)"):
        load_catalogue([team, other])


def test_files_not_read_for_long_are_forgotten(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed_cache, "_MOST_FILES", 3)
    for number in range(5):
        path = write_file(tmp_path / f"{number}.yaml", GOOD.replace("team_net", f"net_{number}"))
        catalogue.read_catalogue_file(path)
    assert len(list(cache.iterdir())) == 3
