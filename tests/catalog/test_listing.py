"""The catalogue as rows: sizes, where weights come from and whether they are here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import Catalogue, load_catalogue
from advisor.catalog.listing import is_here, place, rows
from advisor.downloads.files import FetchOptions, MemberFile, WeightSource

HASH = "a" * 64


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FetchOptions:
    """An empty cache and no mirror."""
    monkeypatch.delenv("ADVISOR_MIRROR", raising=False)
    return FetchOptions(cache=tmp_path / "cache")


def available(catalogue: Catalogue, options: FetchOptions) -> list[str]:
    return [row.card.name for row in rows(catalogue, options) if row.here]


def test_every_card_is_listed_in_the_order_of_the_catalogue(catalogue: Catalogue, nowhere: FetchOptions) -> None:
    assert [row.card.name for row in rows(catalogue, nowhere)] == list(catalogue)


def test_available_are_those_in_the_cache_or_the_mirror(
    catalogue: Catalogue, nowhere: FetchOptions, tmp_path: Path
) -> None:
    assert available(catalogue, nowhere) == []
    source = next(s for s in catalogue["mobilenet_v2_1.0_224"].weights if s.file.sha256)
    kept = tmp_path / "cache" / "weights" / source.file.sha256 / source.file.name
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert available(catalogue, nowhere) == ["mobilenet_v2_1.0_224"]
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "squeezenet_v1.0.caffemodel").touch()
    mirrored = replace(nowhere, mirror=tmp_path / "mirror")
    assert available(catalogue, mirrored) == ["mobilenet_v2_1.0_224", "squeezenet_1.0_227"]


def test_a_users_own_file_is_here_while_it_is(catalogue: Catalogue, nowhere: FetchOptions, tmp_path: Path) -> None:
    own = tmp_path / "net.tflite"
    card = replace(
        catalogue["squeezenet_1.1_227"], weights=(WeightSource("file", "tflite", "whole", MemberFile(str(own), HASH)),)
    )
    assert not is_here(card, nowhere)
    own.touch()
    assert is_here(card, nowhere)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (WeightSource("url", "torch", "x", MemberFile("a.pth", HASH), url="https://u:p@example.org/a"), "example.org"),
        (
            WeightSource("url", "torch", "x", MemberFile("a"), url="https://example.org/a"),
            "example.org (no hash: your copy)",
        ),
        (WeightSource("npm", "tfjs", "x", MemberFile("a", HASH), package="@team/net", version="1"), "npm @team/net"),
        (WeightSource("file", "tflite", "whole", MemberFile("/home/me/net.tflite", HASH)), "file net.tflite"),
    ],
)
def test_a_source_is_told_in_a_few_words_without_credentials(source: WeightSource, said: str) -> None:
    assert place(source) == said


def test_a_row_is_plain_json_with_the_whole_card(catalogue: Catalogue, nowhere: FetchOptions) -> None:
    (row,) = [row for row in rows(catalogue, nowhere) if row.card.name == "mobilenet_v2_1.0_224"]
    plain = json.loads(json.dumps(row.to_json(), allow_nan=False))
    assert plain["arguments"]["width"] == 1.0
    assert (plain["params"], plain["size_bytes"]) == (row.card.params, 4 * row.card.params)
    assert [source["label"] for source in plain["weights"]] == [source.label for source in row.card.weights]
