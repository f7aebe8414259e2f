"""The catalogue from a script: the functions behind the commands."""

from pathlib import Path

import pytest

from advisor import catalog
from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import UsageError
from benchmarks.catalogue import catalogue_text
from tests.catalog.user_models.models import labels_file, network, tflite

pytestmark = pytest.mark.usefixtures("own_folders")


def test_every_card_is_listed() -> None:
    assert [row.card.name for row in catalog.list_cards()] == list(load_catalogue())


def test_cards_are_a_table_with_units_in_its_names() -> None:
    found = catalog.to_frame()
    (card,) = found[found["card"] == "mobilenet_v2_1.0_224"].to_dict("records")
    assert (card["input_px"], card["params"], card["weights_here"]) == (224, 3_504_872, False)
    assert 70 < card["top1_percent"] < 75


def test_one_card_is_shown() -> None:
    assert catalog.show("mobilenet_v2_1.0_224").input_size == 224
    with pytest.raises(UsageError, match="did you mean 'mobilenet_v2_1.0_224'"):
        catalog.show("mobilenet_v2_1.0_225")


def test_what_cannot_be_fetched_comes_with_the_reason() -> None:
    (found,) = catalog.fetch("squeezenet_1.0_227", offline=True)
    assert (found.card, found.cached) == ("squeezenet_1.0_227", False)
    assert "squeezenet_1.0_227" in found.reason


@pytest.mark.parametrize(("names", "everything"), [((), False), (("mobilenet_v2",), True)])
def test_to_fetch_names_or_everything_must_be_said(names: tuple[str, ...], everything: bool) -> None:
    with pytest.raises(UsageError, match="name the cards to fetch"):
        catalog.fetch(*names, everything=everything)


def test_a_broken_file_is_found_by_the_check(tmp_path: Path) -> None:
    broken = tmp_path / "team.yaml"
    broken.write_text("family: team\ncards:\n  - name: net\n    input: 3\n", encoding="utf-8")
    checked = catalog.check(catalog=[broken])
    assert [finding.place for finding in checked.errors] == [f"{broken}:4"]


@pytest.mark.integration
def test_a_model_is_added_and_found(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(tflite(network()))
    added = catalog.add(file, labels=labels_file(tmp_path), mean=[127.5], std=[127.5], top1=61.5)
    assert catalog.show("net") == added.card
    assert [row.card.name for row in catalog.list_cards() if row.here] == ["net"]


def test_a_large_file_is_announced_when_it_is_read_for_the_first_time(tmp_path: Path) -> None:
    team, told = tmp_path / "team.yaml", list[str]()
    team.write_text(catalogue_text(2000), encoding="utf-8")
    for _ in range(2):
        catalog.list_cards(catalog=[team], tell=told.append)
    assert len(told) == 1
    assert told[0].startswith("reading team.yaml for the first time")
