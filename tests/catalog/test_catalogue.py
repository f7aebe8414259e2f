"""Catalogue files: what they may hold, how their mistakes are told, and the public functions."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from advisor import catalog
from advisor.catalog import Catalogue
from advisor.catalog._listing import list_rows, place_of
from advisor.core import UsageError
from advisor.store import FetchOptions, MemberFile, WeightSource
from tests.builders import must_fail, write_file
from tests.tables import with_cases

pytestmark = pytest.mark.usefixtures("own_folders")

GOOD = (Path(__file__).parent / "good_cards.yaml").read_text(encoding="utf-8")
ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def load(tmp_path: Path, text: str) -> Catalogue:
    path = write_file(tmp_path / "team.yaml", text)
    return Catalogue.load([path])


def refused(tmp_path: Path, text: str) -> str:
    raised = must_fail(UsageError, "", load, tmp_path, text)
    return raised.message


def test_a_users_card_joins_the_shipped_ones(tmp_path: Path, catalogue: Catalogue) -> None:
    joined = load(tmp_path, GOOD)
    assert len(joined) == len(catalogue) + 1
    card = joined["team_net"]
    assert (card.family, card.licence, card.classes, card.top1()) == ("team", "MIT", 1000, 70.5)


@with_cases
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    assert old in GOOD
    message = refused(tmp_path, GOOD.replace(old, new, 1))
    assert f"team.yaml:{line}:" in message
    assert said in message


@with_cases
def test_yaml_that_no_catalogue_needs_is_refused_with_its_line(tmp_path: Path, value: str, said: str) -> None:
    message = refused(tmp_path, GOOD.replace("macs: 200", f"macs: {value}"))
    assert "team.yaml:1" in message
    assert said in message


def test_an_alias_repeats_a_value(tmp_path: Path) -> None:
    text = GOOD.replace("licence: MIT", "licence: &own MIT").replace("    macs: 200", "    macs: 200\n    note: *own")
    assert load(tmp_path, text)["team_net"].note == "MIT"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ALIASES, "aliases that grow"),
        ("family: &a [*a]", "contains itself"),
        ("[" * 100_000, ""),
        ("{a: " * 100_000, ""),
        ("a: " + "[\n# ]\n" * 100_000, ""),
        ("cards:" + "\n".join(" " * n + "-" for n in range(500)), ""),
        *((text, "") for text in ("", "just words", "- a list", "family: x\ncards: []\n", "family: x\n", "a: b: c")),
    ],
    ids=count(),
)
def test_what_explodes_or_is_no_catalogue_is_refused(tmp_path: Path, text: str, said: str) -> None:
    message = refused(tmp_path, text)
    assert "team.yaml" in message
    assert said in message


def test_names_families_and_globs_select_in_order_and_others_name_the_nearest(catalogue: Catalogue) -> None:
    chosen = catalogue.select(["squeezenet", "mobilenet_v1_0.25_*", "mobilenet_v1_0.25_224"])
    names = [card.name for card in chosen]
    assert names[0].startswith("mobilenet_v1_0.25")
    assert len(names) == 7
    assert {card.family for card in chosen} == {"mobilenet_v1", "squeezenet"}
    must_fail(UsageError, r"'mobilnet_v2'.*did you mean 'mobilenet_v2'", catalogue.select, ["mobilnet_v2"])
    must_fail(UsageError, "'resnext_\\*'", catalogue.select, ["resnext_*"])


def available(catalogue: Catalogue, **options: Any) -> list[str]:
    return [row.card.name for row in list_rows(catalogue, FetchOptions(**options)) if row.here]


def test_available_are_those_in_cache_or_mirror(catalogue: Catalogue, tmp_path: Path) -> None:
    assert available(catalogue) == []
    source = next(s for s in catalogue["mobilenet_v2_1.0_224"].weights if s.file.sha256)
    kept = tmp_path / "cache" / "weights" / source.file.sha256 / source.file.name
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert available(catalogue) == ["mobilenet_v2_1.0_224"]
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "squeezenet_v1.0.caffemodel").touch()
    assert available(catalogue, mirror=tmp_path / "mirror") == ["mobilenet_v2_1.0_224", "squeezenet_1.0_227"]


@with_cases
def test_a_source_is_told_in_a_few_words_without_credentials(
    source: dict[str, str], file: list[str], said: str
) -> None:
    assert place_of(WeightSource(**source, file=MemberFile(*file))) == said


def test_a_row_is_plain_json_with_the_whole_card(catalogue: Catalogue) -> None:
    (row,) = [row for row in list_rows(catalogue, FetchOptions()) if row.card.name == "mobilenet_v2_1.0_224"]
    plain = json.loads(json.dumps(row.to_json(), allow_nan=False))
    assert plain["arguments"]["width"] == 1.0
    assert (plain["params"], plain["size_bytes"]) == (row.card.params, 4 * row.card.params)
    assert [source["label"] for source in plain["weights"]] == [source.label for source in row.card.weights]


def test_cards_are_a_table_with_units_in_its_names_and_one_card_is_shown() -> None:
    found = catalog.to_frame()
    (card,) = found[found["card"] == "mobilenet_v2_1.0_224"].to_dict("records")
    assert (card["input_px"], card["params"], card["weights_here"]) == (224, 3_504_872, False)
    assert 70 < card["top1_percent"] < 75
    assert catalog.show("mobilenet_v2_1.0_224").input_size == 224
    must_fail(UsageError, "did you mean 'mobilenet_v2_1.0_224'", catalog.show, "mobilenet_v2_1.0_225")


def test_what_cannot_be_fetched_comes_with_the_reason() -> None:
    (found,) = catalog.fetch("squeezenet_1.0_227", offline=True)
    assert (found.card, found.cached) == ("squeezenet_1.0_227", False)
    assert "squeezenet_1.0_227" in found.reason


@pytest.mark.parametrize(("names", "everything"), [((), False), (("mobilenet_v2",), True)])
def test_to_fetch_names_or_everything_must_be_said(names: tuple[str, ...], everything: bool) -> None:
    must_fail(UsageError, "name the cards to fetch", catalog.fetch, *names, everything=everything)


def test_a_broken_file_is_found_by_the_check(tmp_path: Path) -> None:
    broken = write_file(tmp_path / "team.yaml", "family: team\ncards:\n  - name: net\n    input: 3\n")
    checked = catalog.check(catalog=[broken])
    assert [finding.place for finding in checked.errors] == [f"{broken}:4"]


def test_a_large_file_is_announced_when_it_is_first_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.catalog._catalogue.LARGE", 100)
    team, told = tmp_path / "team.yaml", list[str]()
    team.write_text(GOOD, encoding="utf-8")
    for _ in range(2):
        catalog.list_cards(catalog=[team], tell=told.append)
    assert len(told) == 1
    assert told[0].startswith("reading team.yaml for the first time")
