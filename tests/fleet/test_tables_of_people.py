"""Fleets as spreadsheets write them."""

import pytest

from advisor.core import UsageError
from advisor.devices import clusters_of
from advisor.fleet import read_fleet
from tests.requirements import shared_case

PLAIN = "soc,share\nHelio G99,12.5\nApple A15,7\n"


def shares(text: str) -> dict[str, float]:
    return {phone.name: round(phone.share, 4) for phone in read_fleet(text).phones}


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        "soc;share\nHelio G99;12,5\nApple A15;7\n",
        "soc,share\nHelio G99,12.5 %\nApple A15,7%\n",
    ],
    ids=["byte-order mark", "semicolons", "tabs", "decimal commas", "percent"],
)
def test_a_table_of_a_spreadsheet_is_the_plain_one(text: str) -> None:
    assert shares(text) == shares(PLAIN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("soc,share,os\nHelio G99,12,5,android\n", "row 1: it has 4 cells, and there are 3 columns"),
        ("soc,share,Share\nHelio G99,12,80\n", "the column 'share' is there twice"),
        ("soc,share\n", "the table has no row"),
    ],
    ids=["decimal comma", "column twice", "no row"],
)
def test_a_table_that_can_be_read_in_two_ways_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_fleet(text)


def test_a_real_table_with_a_decimal_comma_is_refused_with_its_row() -> None:
    case = shared_case("fleet_decimal_comma.csv")
    with pytest.raises(UsageError, match="row 1: it has 4 cells") as refused:
        read_fleet(case.read_text())
    assert "with a point" in refused.value.hint


def test_a_cluster_without_a_core_is_refused() -> None:
    with pytest.raises(UsageError, match="has a cluster without a core"):
        clusters_of("0 x Cortex-A76 + 4 x Cortex-A55")
