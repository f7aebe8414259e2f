"""Reading fleets."""

import pytest

from advisor.core import UsageError
from advisor.devices import clusters_of, find_shipped_fleets
from advisor.integrations.fleet._phone_devices import index_socs
from advisor.integrations.fleet._phones import read_fleet
from tests.builders import must_fail
from tests.tables import with_cases

PLAIN = "soc,share\nHelio G99,12.5\nApple A15,7\n"


def test_phones_are_found_by_device_target_title_and_soc() -> None:
    rows = "pixel-4,1\npixel-3:tflite-cpu-x1,1\nGoogle Pixel 2,1\nQualcomm Snapdragon 888,1\n"
    found = read_fleet(f"device,share\n{rows}")
    devices = [phone.device for phone in found.phones if phone.device]
    assert [each.profile.name for each in devices[:3]] == ["pixel-4", "pixel-3", "pixel-2"]
    assert devices[1].target.name == "tflite-cpu-x1"
    assert devices[0].target.accelerator == devices[3].target.accelerator == "cpu"
    assert found.unknown_share == 0


def test_phones_are_known_by_the_names_that_people_use() -> None:
    found = read_fleet("device,share\nPixel 8,40\nSM-A546B,20\nSamsung Galaxy S24,20\niPhone 13,20\n")
    devices = [phone.device for phone in found.phones if phone.device]
    assert [each.profile.name for each in devices] == ["pixel-8", "galaxy-a54-5g", "galaxy-s24", "iphone-13"]
    assert [each.target.threads for each in devices] == [4, 4, 4, 4]
    assert devices[3].profile.soc == "Apple A15"  # iPhone13 is also how hw.machine of phones with an A14 begins
    assert [phone.found.split(",")[0] for phone in found.phones] == ["phone", "phone", "profile", "phone"]


def test_a_phone_whose_profile_has_an_npu_only_is_predicted_on_its_cpu() -> None:
    (phone,) = read_fleet("device,share\ngalaxy-s24,100\n").phones
    assert (phone.device.target.accelerator, phone.device.target.threads) == ("cpu", 4)


def test_names_that_phones_give_and_makers_are_understood() -> None:
    (phone,) = read_fleet("soc,share\nMediaTek MT6789,1\n").phones
    assert index_socs()["mt6789"].name == "Helio G99"
    assert phone.device is not None
    assert phone.found.startswith("soc, ")


def test_an_unknown_phone_with_cores_is_named_with_its_distance_and_one_without_counts_as_unknown() -> None:
    (phone,) = read_fleet("device,share,cores\nours,1,2 x Cortex-A76 @ 2200 + 6 x Cortex-A55 @ 2000\n").phones
    assert phone.device is not None
    assert "times from " in phone.found
    assert phone.found.startswith("cores, ")
    found = read_fleet("soc,share\nHelio G99,75\nnobody's own,25\n")
    assert found.unknown_share == pytest.approx(0.25)
    assert [phone.name for phone in found.known] == ["Helio G99"]


def test_shares_that_do_not_add_up_are_normalised_and_those_of_a_phone_with_two_rows_added() -> None:
    found = read_fleet("soc,share\nHelio G99,30%\nHelio G85,30\n")
    assert [phone.share for phone in found.phones] == [0.5, 0.5]
    assert found.notes == ("the shares add up to 60, so they are divided by this sum",)
    assert read_fleet("soc,share\nHelio G99,0.4\nHelio G85,0.6\n").notes == ()
    found = read_fleet("soc,share\nHelio G99,30\nHelio G85,40\nhelio g99,30\n")
    assert [round(phone.share, 2) for phone in found.phones] == [0.6, 0.4]
    assert found.notes == ("'helio g99' has several rows; their shares are added up",)


@with_cases
def test_a_row_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_fleet(text.replace("LONG", "x" * 200_000).replace("MANY", "Helio G99,1\n" * 2001))


def test_the_shipped_fleet_says_that_it_is_an_example_and_knows_all_but_the_others() -> None:
    (path,) = find_shipped_fleets()
    text = path.read_text(encoding="utf-8")
    found = read_fleet(text)
    assert found.title == "phones-2026"
    assert [phone.name for phone in found.phones if phone.device is None] == ["other"]
    assert "is an illustration" in text
    assert sum(phone.share for phone in found.phones) == pytest.approx(1)


def shares(text: str) -> dict[str, float]:
    return {phone.name: round(phone.share, 4) for phone in read_fleet(text).phones}


@with_cases
def test_a_table_of_a_spreadsheet_is_the_plain_one(text: str) -> None:
    assert shares(text) == shares(PLAIN)


@with_cases
def test_a_table_that_can_be_read_in_two_ways_is_refused(text: str, message: str) -> None:
    refused = must_fail(UsageError, message, read_fleet, text)
    assert "with a point" in refused.hint or "4 cells" not in message


def test_a_cluster_without_a_core_is_refused() -> None:
    must_fail(UsageError, "has a cluster without a core", clusters_of, "0 x Cortex-A76 + 4 x Cortex-A55")
