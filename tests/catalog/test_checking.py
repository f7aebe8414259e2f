"""Cards held to schema, names, hashes and published counts; what the check says that it rests on."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.catalog import Catalogue
from advisor.catalog._checking import FindingLevel, check_catalogue, count_graph, count_verified, find_rounding
from advisor.core import UsageError
from tests.builders import must_fail, write_file
from tests.tables import with_cases

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]

SHIPPED = tuple(Catalogue.load().values())

TEAM = (Path(__file__).parent / "team_cards.yaml").read_text(encoding="utf-8")


def findings(tmp_path: Path, text: str, level: FindingLevel = FindingLevel.ERROR) -> list[tuple[str, str, str]]:
    path = write_file(tmp_path / "team.yaml", text)
    found = check_catalogue([path]).findings
    return [
        (Path(entry.place.rpartition(":")[0]).name + ":" + entry.place.rpartition(":")[2], entry.card, entry.text)
        for entry in found
        if entry.level is level and "team.yaml" in entry.place
    ]


def test_the_shipped_catalogue_holds() -> None:
    checked = check_catalogue()
    assert checked.cards >= 70
    assert checked.errors == ()


@with_cases
def test_a_published_count_that_differs_unsaid_is_an_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    ((place, card, text),) = findings(tmp_path, TEAM.replace(old, new))
    assert (place, card) == ("team.yaml:10", "team_net")
    assert said in text


def test_a_note_about_the_count_explains_it(tmp_path: Path) -> None:
    note = "it counts BatchNorm's moving statistics"
    text = TEAM.replace("params: 1680000", f'params: 1690000, note: "{note}"')
    assert findings(tmp_path, text) == []
    assert findings(tmp_path, text.replace(note, "trained for long"))
    assert "as a note on the card explains" in findings(tmp_path, text, FindingLevel.NOTE)[0][2]


def test_every_mistake_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    wrong = ("{name: a, params: -1, macs: 5}", "{name: b, params: 1, mcas: 5}", "{name: team_net, params: 1, macs: 1}")
    more = "".join(f"  - {entry}\n" for entry in wrong)
    told = findings(tmp_path, TEAM + more)
    assert [place for place, _, _ in told] == ["team.yaml:15", "team.yaml:16", "team.yaml:17"]
    assert "greater than 0" in told[0][2]
    assert "did you mean 'macs'" in told[1][2]
    assert "already taken" in told[2][2]


def test_an_own_file_that_is_gone_or_changed_or_without_a_hash_is_an_error(tmp_path: Path) -> None:
    source = "    weights:\n      - {kind: file, format: tflite, port: whole, file: {path: net.tflite%s}}\n"
    hashed = TEAM + source % f", sha256: {'a' * 64}"
    assert "is not there" in findings(tmp_path, hashed)[0][2]
    (tmp_path / "net.tflite").write_bytes(b"other")
    assert f"expected {'a' * 64}" in findings(tmp_path, hashed)[0][2]
    assert "without a hash" in findings(tmp_path, TEAM + source % "")[0][2]


@pytest.mark.integration
def test_a_graph_is_counted_in_a_child_and_a_rule_that_does_not_exist_is_found() -> None:
    card = Catalogue.load()["squeezenet_1.1_227"]
    counts = count_graph(card)
    assert (counts.params, counts.values, counts.macs) == (card.params, card.params, card.macs)
    wrong = replace(card, weights=tuple(replace(source, port="squeezent") for source in card.weights))
    must_fail(UsageError, r"no rule is called 'squeezent' \(did you mean 'squeezenet'\?\)", count_graph, wrong)


def test_nothing_is_built_where_a_file_cannot_be_read(tmp_path: Path) -> None:
    checked = check_catalogue([tmp_path / "nowhere.yaml"], build=True)
    assert [Path(error.place).name for error in checked.errors] == ["nowhere.yaml"]
    assert checked.built == 0


@given(st.integers(1, 999), st.integers(0, 9))
def test_a_figure_is_rounded_to_where_its_zeros_begin(digits: int, zeros: int) -> None:
    unit = find_rounding(digits * 10**zeros)
    assert unit >= 10**zeros
    assert digits * 10**zeros % unit == 0
    assert digits * 10**zeros // unit % 10 != 0


def test_every_source_is_counted_by_what_its_hash_proves_and_a_card_without_one_says_why() -> None:
    found = count_verified(SHIPPED)
    assert found.strong + found.weak + found.unknown == sum(len(card.weights) for card in SHIPPED)
    assert min(found.strong, found.weak, found.unknown) > 0
    assert found.counts > len(SHIPPED)
    assert (found.hashed, found.damaged) == ((), ())
    cards = {card.name: card for card in SHIPPED}
    sourceless = count_verified(SHIPPED).sourceless
    assert sourceless == tuple(f"mnasnet_1.0_{size}" for size in (192, 160, 128, 96))
    assert all("they are no source here" in cards[name].note for name in sourceless)


def test_cached_weights_are_hashed_and_damaged_ones_fail_the_check(tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"weights").hexdigest()
    source = "{kind: url, format: keras_h5, port: keras, url: 'https://example.org/net.h5',"
    source += f" file: {{path: net.h5, sha256: '{sha256}'}}}}"
    file = write_file(tmp_path / "team.yaml", f"{TEAM}    weights: [{source}]\n")
    kept = write_file(tmp_path / "cache" / "weights" / sha256 / "net.h5", b"weights")
    checked = check_catalogue([file])
    assert (checked.verified.hashed, checked.errors) == (("team_net",), ())
    kept.write_bytes(b"something else")
    (error,) = check_catalogue([file]).errors
    assert (error.card, error.place) == ("team_net", f"{file}:10")
    assert "the cache holds another file" in error.text
