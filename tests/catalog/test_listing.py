"""The catalogue as rows: filters, sizes, where weights come from and whether they are here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import Catalogue, load_catalogue
from advisor.catalog.cards import MemberFile, WeightSource
from advisor.catalog.listing import count, is_here, place, rows
from advisor.catalog.weights.options import FetchOptions
from advisor.core.errors import UsageError

HASH = "a" * 64


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FetchOptions:
    """An empty cache and no mirror."""
    monkeypatch.delenv("ADVISOR_MIRROR", raising=False)
    return FetchOptions(cache=tmp_path / "cache")


def names(catalogue: Catalogue, options: FetchOptions, **filters: Any) -> list[str]:
    return [row.card.name for row in rows(catalogue, options, **filters)]


def test_without_filters_every_card_is_listed(catalogue: Catalogue, nowhere: FetchOptions) -> None:
    assert names(catalogue, nowhere) == list(catalogue)


def test_filters_hold_together(catalogue: Catalogue, nowhere: FetchOptions) -> None:
    families = ("mobilenet_v1", "mobilenet_v2")
    listed = names(catalogue, nowhere, families=families, max_params=2e6, max_macs=50e6, licence="apache-*")
    found = [catalogue[name] for name in listed]
    assert found
    assert {card.family for card in found} == {"mobilenet_v1", "mobilenet_v2"}
    assert all(card.params <= 2e6 and card.macs <= 50e6 and card.licence == "Apache-2.0" for card in found)
    others = [card for card in catalogue.values() if card not in found and card.family in families]
    assert all(card.params > 2e6 or card.macs > 50e6 for card in others)


def test_a_limit_lets_its_own_value_pass(catalogue: Catalogue, nowhere: FetchOptions) -> None:
    card = catalogue["squeezenet_1.1_227"]
    assert card.name in names(catalogue, nowhere, max_params=card.params, max_macs=card.macs)
    assert card.name not in names(catalogue, nowhere, max_params=card.params - 1)


def test_available_are_those_in_the_cache_or_the_mirror(
    catalogue: Catalogue, nowhere: FetchOptions, tmp_path: Path
) -> None:
    assert names(catalogue, nowhere, available=True) == []
    source = next(s for s in catalogue["mobilenet_v2_1.0_224"].weights if s.file.sha256)
    kept = tmp_path / "cache" / "weights" / source.file.sha256 / source.file.name
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert names(catalogue, nowhere, available=True) == ["mobilenet_v2_1.0_224"]
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "squeezenet_v1.0.caffemodel").touch()
    mirrored = replace(nowhere, mirror=tmp_path / "mirror")
    assert names(catalogue, mirrored, available=True) == ["mobilenet_v2_1.0_224", "squeezenet_1.0_227"]


def test_a_users_own_file_is_here_while_it_is(catalogue: Catalogue, nowhere: FetchOptions, tmp_path: Path) -> None:
    own = tmp_path / "net.tflite"
    card = replace(
        catalogue["squeezenet_1.1_227"], weights=(WeightSource("file", "tflite", "whole", MemberFile(str(own), HASH)),)
    )
    assert not is_here(card, nowhere)
    own.touch()
    assert is_here(card, nowhere)


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"families": ("mobilnet_v2",)}, "--family: unknown 'mobilnet_v2' (did you mean 'mobilenet_v2'?)"),
        ({"licence": "Apache-2"}, "--licence: unknown 'Apache-2' (did you mean 'Apache-2.0'?)"),
    ],
)
def test_a_filter_that_means_nothing_names_the_nearest(
    catalogue: Catalogue, nowhere: FetchOptions, filters: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as raised:
        rows(catalogue, nowhere, **filters)
    assert raised.value.message == said


@pytest.mark.parametrize(("text", "value"), [("3.5M", 3.5e6), ("3500000", 3.5e6), ("0.3G", 3e8), ("800k", 8e5)])
def test_counts_are_read_with_their_unit(text: str, value: float) -> None:
    assert count(text, "--max-params") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "0", "-1M", "5MB", "many", "1e400M"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--max-params"):
        count(text, "--max-params")


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
