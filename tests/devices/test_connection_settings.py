"""How a profile says that its device is reached, and the machine that runs the advisor as a device."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.compression import recipe
from advisor.core import FileFeatures, Traits, UsageError
from advisor.devices import ConnectionSettings, SshConnection, listing, read_features, target_vector
from advisor.devices._latency.features import Architecture, FeatureTable, ModelFeatures
from advisor.devices._profiles import cores, read_profile, this_machine as host
from advisor.devices._profiles.storing import write_profile
from advisor.engine._targets.target_devices import TargetDevices
from advisor.isolation import usable_cores
from advisor.tflite import to_float16
from tests.builders import must_fail, present, write_file
from tests.measurement.small_models import classifier, swish_net
from tests.tables import read_table, with_cases

BOARD = read_table(__file__, "texts.yaml")["board_connection_settings"]
X86 = read_table(__file__, "texts.yaml")["x86"]
BOARD_OF_HOST = "processor\t: 0\nBogoMIPS\t: 108.00\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"


def profile_with(folder: Path, connection: str) -> Path:
    return write_file(folder / "board.yaml", BOARD + f"connection: {connection}\n")


def test_a_profile_runs_no_command_of_its_own(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    config = write_file(tmp_path / "ssh_config", f'Match exec "touch {trap}"\nHost *\n  ProxyCommand touch {trap}\n')
    profile_with(tmp_path, f"{{ssh: board.invalid, config: {config}}}")
    (tmp_path / "model.tflite").write_bytes(b"")
    with pytest.raises(UsageError, match="unknown key 'config'"):
        advisor.benchmark_device(tmp_path / "model.tflite", device="board", profiles=[tmp_path])
    assert not trap.exists()


def test_a_profile_says_how_its_device_is_reached(tmp_path: Path) -> None:
    path = profile_with(tmp_path, "{ssh: pi@board.local, port: 2222, python: venv/bin/python}")
    reach = read_profile(path).connection
    assert reach == ConnectionSettings("ssh", "pi@board.local", port=2222, python="venv/bin/python")
    assert reach.connect() == SshConnection("pi@board.local", "venv/bin/python", 2222)


def test_a_phones_binary_is_one_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = profile_with(tmp_path, "{adb: R58M, benchmark_model: ~/tools/benchmark_model, cores: f0}")
    reach = present(read_profile(path).connection)
    assert reach.benchmark_model == tmp_path / "home" / "tools" / "benchmark_model"


@with_cases
def test_what_is_wrong_is_refused_with_file_and_line(tmp_path: Path, connection: str, message: str) -> None:
    path = profile_with(tmp_path, connection)
    caught = must_fail(UsageError, "", read_profile, path)
    assert caught.message.startswith(f"{path}:8: ")
    assert message in caught.message


def test_a_password_is_refused_and_not_repeated(tmp_path: Path) -> None:
    said = r"board.yaml:8: connection.ssh: the ssh address contains a password"
    caught = must_fail(UsageError, said, read_profile, profile_with(tmp_path, "{ssh: 'pi:hunter2@board.local'}"))
    told = must_fail(UsageError, "the ssh address contains a password", SshConnection, "pi:hunter2@board.local")
    assert "hunter2" not in f"{caught.message}{caught.hint}{told.message}{told.hint}"


def test_a_connection_survives_writing_and_changes_no_prediction(tmp_path: Path) -> None:
    profile = read_profile(profile_with(tmp_path, "{ssh: pi@board.local, port: 2222}"))
    again = read_profile(write_profile(profile, tmp_path / "kept"))
    assert again.connection == profile.connection
    assert profile.fingerprint() == replace(profile, connection=None).fingerprint()


def test_the_agent_is_not_asked_for_an_accelerator() -> None:
    must_fail(UsageError, "measures CPU targets only", ConnectionSettings("ssh", "board").connect, "npu")


@pytest.mark.parametrize("options", [{}, {"ssh": "a", "adb": "b"}, {"ssh": "a", "here": True}])
def test_one_way_must_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the connection is not clear"):
        (ConnectionSettings.from_options(**options) or ConnectionSettings()).connect()


def with_cpuinfo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    path = write_file(tmp_path / "cpuinfo", text)
    monkeypatch.setattr(host, "_CPUINFO", path)
    monkeypatch.setattr(host, "_MAX_FREQUENCY", tmp_path / "none")


def test_an_x86_processor_is_named_with_its_vectors_and_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_cpuinfo(monkeypatch, tmp_path, X86)
    profile = host.host_profile()
    cores = profile.cores[0]
    assert (profile.soc, cores.core, cores.max_mhz) == ("AMD EPYC 9B14", "AMD EPYC 9B14 (AVX-512)", 2596)
    vector = present(target_vector(profile, profile.targets[0], "float32"))
    assert vector[:2] == pytest.approx((math.log(32 * 2.596), math.log(2.596)))


@with_cases
def test_the_arithmetic_of_an_x86_processor_follows_from_its_flags(
    vendor: str, family: str, flags: str, core: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stated = f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel name\t: Maker X\nflags\t\t: {flags}\n"
    with_cpuinfo(monkeypatch, tmp_path, stated)
    assert host.host_profile().cores[0].core == f"Maker X ({core})"
    assert cores.find_core(f"Maker X ({core})") is not None


@pytest.mark.parametrize(("text", "remarks"), [(X86, 0), (BOARD_OF_HOST, 1)])
def test_a_processor_that_is_no_known_core_is_said_in_the_profile_and_the_plan(
    text: str, remarks: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_cpuinfo(monkeypatch, tmp_path, text)
    found = TargetDevices(host=True).remarks
    assert found == listing.list_remarks(host.host_profile())
    assert len(found) == remarks
    assert all("'BCM2835' is not known" in remark for remark in found)
    assert TargetDevices(host=False).remarks == ()


@pytest.mark.integration
def test_a_system_that_states_nothing_still_has_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_cpuinfo(monkeypatch, tmp_path, "")
    profile = host.host_profile()
    assert profile.soc
    assert profile.target().threads <= usable_cores()


@pytest.fixture(scope="module")
def found() -> FileFeatures:
    return read_features(classifier(32, 4))


def test_what_a_file_computes_is_counted(found: FileFeatures) -> None:
    assert (found.form, found.input_size) == ("float32", 32)
    assert found.layers == sum(found.operators.values())
    assert min(found.macs, found.parameters, found.arena_bytes) > 0


def test_the_file_tells_halved_weights_and_smooth_activations_and_that_it_computes_nothing(found: FileFeatures) -> None:
    halved = read_features(to_float16(classifier(32, 4)))
    assert halved.form == "float16"
    assert (halved.macs, halved.layers) == (found.macs, found.layers)
    assert read_features(swish_net()).traits.smooth > found.traits.smooth
    assert ModelFeatures.of_file(replace(found, macs=0), "net", "nets", FeatureTable({}, ())) is None


@pytest.mark.parametrize("name", ["weight_int8", "dynamic_int8"])
def test_the_form_of_a_recipe_s_file_is_the_recipe_s(name: str) -> None:
    images = np.random.default_rng(0).uniform(-1, 1, (4, 64, 64, 3)).astype(np.float32)
    assert read_features(recipe(name).apply(swish_net(64, 64), images)).form == name


def test_a_measured_model_is_taken_for_itself_only_where_the_file_computes_as_much(found: FileFeatures) -> None:
    listed = ModelFeatures("net", "nets", float(found.macs), 1e4, 32, 9.0)
    table = FeatureTable({"net": listed}, (Architecture("net", "nets", 9.0, Traits()),))
    same = present(ModelFeatures.of_file(found, "net", "nets", table))
    larger = present(ModelFeatures.of_file(replace(found, macs=2 * found.macs), "net", "nets", table))
    assert (same.name, same.family) == ("net", "nets")
    assert larger.name != "net"
    assert np.isfinite(larger.vector).all()
