"""Phones that are attached, over the real adb: which one, what it says of itself, and its profile."""

from dataclasses import replace
from pathlib import Path

import pytest

import advisor
from advisor import devices
from advisor.core import StageError, UsageError
from advisor.devices import ConnectionSettings, Profiles
from advisor.devices._connections.attached import ANY_PHONE, find_serial, parse_answers, read_phone
from advisor.devices._connections.tool import check_tool, find_tool
from advisor.devices._profiles.attached import describe_phone
from tests.builders import must_fail
from tests.makers.phones import PIXEL_8, Phone, write_facts
from tests.makers.servers import Shelf
from tests.tables import with_cases

CONNECTION = ConnectionSettings("adb", "R58M12ABCDE")
NOTHING = parse_answers("R58M12ABCDE", [""] * 5)


def test_a_phone_says_what_it_is(phone: Phone, profiles: Profiles) -> None:
    write_facts(phone.root, PIXEL_8)
    attached = read_phone(ANY_PHONE)
    assert (attached.serial, attached.abi, attached.android) == (phone.serial, "arm64-v8a", "15")
    assert (attached.memory_bytes, attached.free_memory_bytes) == (7773048 * 1024, 3000000 * 1024)
    profile = describe_phone(attached, profiles, CONNECTION)
    assert (profile.name, profile.soc, profile.predicted_from) == ("pixel-8", "Google Tensor G3", "")
    cores = [("Cortex-X3", 1, 2914), ("Cortex-A715", 4, 2367), ("Cortex-A510", 4, 1704)]
    assert [(cluster.core, cluster.count, cluster.max_mhz) for cluster in profile.cores] == cores


def test_several_phones_are_not_guessed_between(phone: Phone, second_phone: Phone) -> None:
    refused = must_fail(UsageError, "several phones are attached", find_serial, ANY_PHONE)
    assert "--adb" in refused.hint
    assert find_serial(second_phone.serial) == second_phone.serial


def test_another_phone_than_the_named_one_measures_nothing_for_it(phone: Phone, model: Path) -> None:
    write_facts(phone.root, PIXEL_8)
    words = "is a Google Pixel 8, and pixel-4 is the Google Pixel 4"
    must_fail(UsageError, words, devices.calibrate, "pixel-4", adb=phone.serial)
    must_fail(UsageError, words, advisor.benchmark_device, model, device="pixel-4", adb="usb")


def test_without_a_phone_the_steps_to_attach_one_are_named(adb_server: None) -> None:
    refused = must_fail(UsageError, "no phone is attached", find_serial, ANY_PHONE)
    assert "USB debugging" in refused.hint


def test_a_phone_that_does_not_answer_is_an_error(phone: Phone) -> None:
    phone.daemon.vanish_on = "getprop"
    must_fail(StageError, "does not answer as a phone does", read_phone, phone.serial)


def test_a_known_phone_keeps_its_measurements_and_of_two_variants_the_chip_tells(profiles: Profiles) -> None:
    profile = describe_phone(replace(NOTHING, model="SM-S921U"), profiles, CONNECTION)
    assert profile.name == "galaxy-s24"
    assert profile.measurements == profiles["galaxy-s24"].measurements
    assert {target.name for target in profiles["galaxy-s24"].targets} < {target.name for target in profile.targets}
    attached = replace(NOTHING, model="Galaxy S21", soc=("Exynos 2100",))
    assert describe_phone(attached, profiles, CONNECTION).name == "galaxy-s21-exynos-2100"


def test_an_unknown_phone_is_described_by_its_cores_or_refused(profiles: Profiles) -> None:
    unknown = replace(NOTHING, maker="Maker", model="M 1", processors=(("0x41", "0xd05", None),) * 8)
    profile = describe_phone(unknown, profiles, CONNECTION, name="ours")
    assert (profile.name, profile.title, profile.cores[0].count) == ("ours", "Maker M 1", 8)
    strange = replace(unknown, processors=(*unknown.processors, ("0x99", "0x001", 9000)))
    words = "the processor of Maker M 1 is not known"
    refused = must_fail(UsageError, words, describe_phone, strange, profiles, CONNECTION)
    assert refused.hint.startswith("write these lines into m-1.yaml, then: advisor devices add m-1.yaml")


def test_a_phone_with_another_instruction_set_has_no_tool(phone: Phone) -> None:
    write_facts(phone.root, {**PIXEL_8, "ro.product.cpu.abilist": "x86_64"})
    must_fail(UsageError, "runs x86_64", find_tool, phone.serial)


@with_cases
def test_the_tool_for_the_phone_is_fetched_from_a_mirror_once(
    phone: Phone, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abis: str, tool: str, machine: int
) -> None:
    write_facts(phone.root, {**PIXEL_8, "ro.product.cpu.abilist": abis})
    wrong, program = (b"\x7fELF".ljust(18, b"\0") + bytes([number, 0]) for number in (3, machine))
    shelf.put(f"/{tool}", wrong)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ADVISOR_MIRROR", shelf.url)
    must_fail(UsageError, "is a program for x86, the phone runs", find_tool, phone.serial)
    shelf.put(f"/{tool}", program)
    assert find_tool(phone.serial).read_bytes() == program
    shelf.put(f"/{tool}", b"another release")
    assert find_tool(phone.serial).read_bytes() == program


@with_cases
def test_what_no_phone_runs_is_no_tool(tmp_path: Path, head: str, processor: int, words: str) -> None:
    (tmp_path / "tool").write_bytes(head.encode().ljust(18, b"\0") + bytes([processor, 0]))
    must_fail(UsageError, words, check_tool, tmp_path / "tool", "arm64-v8a")
