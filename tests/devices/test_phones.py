"""Phones and boards by the names that people use."""

from pathlib import Path

import pytest

from advisor.core import HOST, UsageError
from advisor.devices import Predictor, Soc, device_names, load_features, phone_remarks
from advisor.devices._profiles import load_profiles, read_profile
from advisor.devices._profiles.cores import core_named
from advisor.devices._profiles.gpus import GPUS_FILE, find_gpu_peak
from advisor.devices._profiles.listing import PREDICTED, device_json, find_provenance, list_remarks
from advisor.devices._profiles.loading import Profiles, read_checked_profile
from advisor.devices._profiles.phone_names import phones_named, read_boards, read_phones
from advisor.devices._profiles.phones import list_phones, nearest_names, profile_of
from advisor.devices._profiles.socs import clusters_of, find_soc, instruction_set, plain_name, read_rows
from advisor.devices._profiles.storing import write_profile
from advisor.store import shipped_folder
from tests.builders import interval, must_fail, write_file
from tests.tables import read_table, with_cases

CASES = read_table(__file__, "names_of_people.yaml")

MOST_SOLD = (Path(__file__).parent / "most_sold.txt").read_text(encoding="utf-8")
"""Written down from the yearly lists of Counterpoint, Canalys and Omdia as they are remembered; their order is none."""


@pytest.mark.parametrize(("written", "name"), CASES.items())
def test_a_phone_is_known_by_the_names_that_people_use(profiles: Profiles, written: str, name: str) -> None:
    found = profiles.profile(written)
    assert found.name == name
    assert found is profiles.get(name, found), "a measured profile is used before a predicted one"


def test_a_name_may_be_followed_by_a_target(profiles: Profiles) -> None:
    profile, target = profiles.select("Pixel 8:tflite-cpu-x1")
    assert (profile.name, target.threads) == ("pixel-8", 1)
    assert profiles.select("s24:qnn-npu")[1].runtime == "qnn"


@with_cases
def test_a_name_of_several_phones_asks_which(profiles: Profiles, written: str, candidates: tuple[str, ...]) -> None:
    refused = must_fail(UsageError, f"'{written}' may be several phones", profiles.profile, written)
    assert all(candidate in refused.message for candidate in candidates)


def test_an_unknown_name_meets_the_nearest_and_the_two_lines_that_add_it(profiles: Profiles, tmp_path: Path) -> None:
    refused = must_fail(UsageError, r"unknown device 'Pixel 12' \(did you mean 'pixel-", profiles.profile, "Pixel 12")
    hint = refused.hint
    assert "Pixel 10" in hint
    first, *lines = hint.splitlines()
    assert "advisor devices add pixel-12.yaml" in first
    assert len(lines) == 2
    path = write_file(tmp_path / "pixel-12.yaml", "\n".join(line.strip() for line in lines))
    added = read_checked_profile(path)
    threads = [target.threads for target in added.targets]
    assert (threads, added.target().of("pixel-12").runtime) == ([1, 2, 4], "tflite==2.3.0+xnnpack")
    assert (added.title, added.kind, added.predicted_from) == ("pixel-12", "phone", "")


@pytest.mark.parametrize(("written", "name"), [("13", "our-13"), ("Host", "our-host"), ("日本", "our-phone")])
def test_the_two_lines_have_a_valid_name(written: str, name: str, profiles: Profiles) -> None:
    assert f"\n  name: {name}\n" in must_fail(UsageError, "", profiles.profile, written).hint


def test_the_soc_of_a_profile_gives_its_cores(tmp_path: Path) -> None:
    path = write_file(tmp_path / "ours.yaml", "name: ours\nsoc: Snapdragon 7s Gen 2\n")
    profile = read_profile(path)
    assert (profile.soc, profile.cores) == ("Qualcomm Snapdragon 7s Gen 2", find_soc("SM7435").cores)  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["name: ours\n", "name: ours\nsoc: Abacus 3\n"])
def test_a_profile_without_targets_cores_and_known_soc_is_refused(tmp_path: Path, text: str) -> None:
    path = write_file(tmp_path / "ours.yaml", text)
    must_fail(UsageError, r"ours.yaml:1: the key 'targets' is missing", read_profile, path)


@with_cases
def test_a_name_of_nothing_is_unknown(profiles: Profiles, name: str) -> None:
    refused = must_fail(UsageError, "unknown device", profiles.profile, name)
    assert "\x1b" not in refused.message + refused.hint


def test_95_of_the_100_most_sold_phones_have_a_profile(profiles: Profiles) -> None:
    names = [name.strip() for name in MOST_SOLD.replace("\n", " ").split(",")]
    assert len(set(names)) == len(names) == 100
    unknown = []
    for name in names:
        try:
            profiles.profile(name)
        except UsageError as error:
            unknown.append(f"{name}: {error.message}")
    assert len(unknown) <= 5, unknown


def test_profiles_that_the_tables_name_exist_and_every_phone_leads_to_known_cores(profiles: Profiles) -> None:
    for phone in read_phones():
        profile = profile_of(phone)
        assert profile.target().accelerator == "cpu"
        assert all(core_named(cluster.core) and cluster.max_mhz for cluster in profile.cores)
        assert 2010 < phone.year < 2030
    assert len(read_phones()) > 600
    assert {phone.profile for phone in read_phones()} - {""} <= profiles.keys()
    assert {board.profile for board in read_boards()} <= profiles.keys()


def test_every_phone_is_known_by_its_name_code_and_slug_and_no_name_is_there_twice() -> None:
    slugs = [phone.slug for phone in read_phones()]
    codes = [plain_name(code) for phone in read_phones() for code in phone.codes]
    socs = [plain_name(name) for soc in Soc.read_all() for name in (soc.name, *soc.names)]
    boards = [plain_name(name) for board in read_boards() for name in (board.name, *board.names)]
    for names in (slugs, codes, socs, boards):
        assert sorted({name for name in names if names.count(name) > 1}) == []
    for phone in read_phones():
        for text in (phone.name, phone.slug, *phone.codes):
            assert phone in phones_named(text.removesuffix("*")), text


def test_a_predicted_profile_says_so_and_how_to_measure_it(profiles: Profiles) -> None:
    pixel, iphone = profiles.profile("Pixel 8"), profiles.profile("iPhone 15")
    assert list_remarks(pixel)[0].startswith("predicted from the cores of Google Tensor G3; nothing was measured on it")
    assert "advisor devices add --usb" in list_remarks(pixel)[1]
    assert "CSV" in list_remarks(iphone)[1]
    assert (find_provenance(pixel), device_json(pixel)["provenance"]) == (PREDICTED, "predicted")
    assert (pixel.memory_bytes, pixel.npu, pixel.isa) == (8_000_000_000, "Edge TPU", "armv9-a")


def test_a_hexagon_and_a_listed_gpu_are_targets_and_others_are_facts(profiles: Profiles, predictor: Predictor) -> None:
    profile, target = profiles.select("Galaxy S23:tflite-npu")
    (found,) = predictor.predict(profile, target, "int8", [load_features().models["mobilenet_v2_1.0_224"]])
    assert phone_remarks(profile, target)[0].startswith("predicted from the generation of its NPU, Hexagon v73")
    assert (found.unlike, found.latency.value < 5, profile.target().accelerator) == ("", True, "cpu")
    for name in ("OnePlus 7", "galaxy-s24", "pixel-2"):  # The profile of the last two lacks its GPU
        assert phone_remarks(*profiles.select(f"{name}:gpu"))[0].startswith("predicted from the peak arithmetic of the")
    assert {each.accelerator for each in profiles.profile("Pixel 8").targets} == {"cpu"}


def test_the_list_has_measured_and_predicted_phones_and_the_variants_of_each(profiles: Profiles) -> None:
    assert "also sold as galaxy-s24-exynos-2400 (SM-S921B, SM-S921N)" in list_remarks(profiles["galaxy-s24"])[0]
    assert list_remarks(profiles["pixel-4"]) == ()
    listed = {profile.name: profile for profile in list_phones(profiles)}
    assert listed["galaxy-s24"] is profiles["galaxy-s24"]
    assert listed["pixel-8"].predicted_from
    assert not {HOST, "galaxy-s24-snapdragon-8-gen-3", "mi-10"} & listed.keys()


def test_a_profile_of_ones_own_replaces_a_predicted_one(profiles: Profiles, tmp_path: Path) -> None:
    write_profile(profiles.profile("Pixel 8"), tmp_path)
    own = load_profiles([tmp_path])
    for name in ("pixel-8", "Pixel 8", "shiba", "Google Pixel 8"):
        assert (own.profile(name).origin, own.profile(name).predicted_from) == (tmp_path / "pixel-8.yaml", "")


@pytest.mark.parametrize("network", ["mobilenet_v1_1.0_224", "mobilenet_v3_large_1.0_224"])
def test_an_interval_is_as_wide_as_without_measurements(profiles: Profiles, predictor: Predictor, network: str) -> None:
    """The networks are known alike on all three: the one was measured on comparable devices, the other on none."""

    def width(name: str, form: str) -> float:
        (found,) = predictor.predict(*profiles.select(name), form, [load_features().models[network]])
        low, _, high = interval(found.latency)
        return high / low

    for form in ("float32", "int8"):
        known = width("orange-pi-5:tflite-cpu-x4", form)  # measured with ncnn alone
        new_soc, new_core = width("Pixel 8", form), width("Galaxy A54", form)  # no Cortex-A78 was measured
        assert known < new_soc < new_core


def test_names_for_the_shell_and_the_nearest_names_are_those_of_people(profiles: Profiles) -> None:
    assert {"pixel-8", "galaxy-a54-5g", "iphone-15"} <= set(device_names())
    assert [name for name in device_names() if profiles.profile(name).name != name] == []
    assert "Galaxy A54 5G" in nearest_names("galaxi a54", profiles)


@with_cases
def test_the_instruction_set_is_that_of_all_cores(cores: str, isa: str) -> None:
    assert instruction_set(clusters_of(cores)) == isa


def test_the_peak_of_every_gpu_has_a_source_and_fits_its_chip() -> None:
    for row in read_rows(shipped_folder("device_profiles") / GPUS_FILE):
        peak = find_gpu_peak(row["soc"])  # A clock is 0.5 to 2 GHz, so another unit would be far outside
        assert 20 <= peak <= 10_000, row
        assert row["source"], row
        soc = find_soc(row["soc"])
        assert soc is None or row["gpu"].startswith(soc.gpu), row
        if row["maker"] == "NVIDIA":
            assert 0.5 <= peak / 2 / int(row["gpu"].split()[0]) <= 2, row
