"""What the check says that it rests on."""

import hashlib
from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.checking import check_catalogue, verified

CARDS = tuple(load_catalogue().values())


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and a cache of the test's own."""
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))


def team(folder: Path, content: bytes) -> Path:
    """A catalogue whose only card's weights have the hash of ``content``."""
    path = folder / "team.yaml"
    path.write_text(
        "family: team\npaper: ours\nlicence: MIT\ncards:\n"
        "  - {name: net, input_size: 224, params: 1, macs: 1, architecture: mobilenet_v2,"
        " preprocessing: {mean: [0, 0, 0], std: [1, 1, 1]},"
        " weights: [{kind: url, format: keras_h5, port: keras, url: 'https://example.org/net.h5',"
        f" file: {{path: net.h5, sha256: '{hashlib.sha256(content).hexdigest()}'}}}}]}}\n",
        encoding="utf-8",
    )
    return path


def in_cache(folder: Path, expected: bytes, content: bytes) -> None:
    place = folder / "cache" / "weights" / hashlib.sha256(expected).hexdigest()
    place.mkdir(parents=True)
    (place / "net.h5").write_bytes(content)


def test_every_source_is_counted_by_what_its_hash_proves() -> None:
    found = verified(CARDS)
    assert found.strong + found.weak + found.unknown == sum(len(card.weights) for card in CARDS)
    assert min(found.strong, found.weak, found.unknown) > 0
    assert found.counts > len(CARDS)
    assert (found.hashed, found.damaged) == ((), ())


def test_a_card_without_a_source_says_so_and_why_in_its_note() -> None:
    cards = {card.name: card for card in CARDS}
    sourceless = verified(CARDS).sourceless
    assert sourceless == tuple(f"mnasnet_1.0_{size}" for size in (192, 160, 128, 96))
    assert all("they are no source here" in cards[name].note for name in sourceless)


def test_cached_weights_are_hashed(tmp_path: Path) -> None:
    file = team(tmp_path, b"weights")
    in_cache(tmp_path, b"weights", b"weights")
    checked = check_catalogue([file])
    assert checked.verified.hashed == ("net",)
    assert not checked.errors


def test_damaged_weights_in_the_cache_fail_the_check(tmp_path: Path) -> None:
    file = team(tmp_path, b"weights")
    in_cache(tmp_path, b"weights", b"something else")
    (error,) = check_catalogue([file]).errors
    assert (error.card, error.place) == ("net", f"{file}:5")
    assert "the cache holds another file" in error.text
