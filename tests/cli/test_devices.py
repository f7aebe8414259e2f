"""``advisor devices`` as a user runs it."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.cli._device_output import DEVICES, print_calibrated, print_device
from advisor.devices import Calibrated, Timing, find_shipped_profiles, host_profile, local_runtimes
from advisor.devices._calibration.errors import CalibrationReport
from advisor.devices._calibration.networks import Key, MeasuredNetworks
from advisor.devices._profiles import load_profiles, read_profile
from advisor.devices._profiles.cores import CORES_FILE
from advisor.devices._profiles.measurements import Kernel
from advisor.tflite import Work
from tests.builders import write_file
from tests.makers.commands import Advisor, Said, ended, refused
from tests.tables import read_table, with_cases

BOARD = (Path(__file__).parent / "board.yaml").read_text(encoding="utf-8")
ROWS = read_table(__file__, "texts.yaml")["rows"]
OURS = replace(host_profile(), name="our-board", kernels=(Kernel("cpu-x1", "int8", Work("ADD", 4, 4, read=32), 1.5),))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Where the user's own profiles are kept."""
    return tmp_path / "config" / "device_profiles"


@pytest.fixture
def alone(advisor: Advisor, tmp_path: Path) -> Advisor:
    """The command with settings of its own."""

    def run(*arguments: str) -> Said:
        return advisor("devices", *arguments, ADVISOR_CONFIG_DIR=str(tmp_path / "config"))

    return run


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A profile that somebody wrote, with its measurements."""
    return write(tmp_path)


def write(folder: Path, text: str = BOARD, name: str = "our-board", rows: str = ROWS) -> Path:
    path = write_file(folder / f"{name}.yaml", text)
    path.with_suffix(".csv").write_text(rows)
    return path


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_this_machine_names_its_other_runtimes_and_a_target_what_its_accelerator_takes(alone: Advisor) -> None:
    said = ended(alone("show", "host"))
    lines = said.out[said.out.index("other runtimes here") : said.out.index("measurements")].splitlines()[1:]
    assert [line.split(": ")[0].strip() for line in lines] == ["chromium", "host:executorch", "host:onnxruntime"]
    assert "; executorch " in lines[1] or "; not installed: " in lines[1]
    said = alone("show", "coral-usb")
    assert "Coral Edge TPU: supports" in said.out
    assert "advisor profile FILE --accelerator edgetpu" in said.out


def test_the_table_has_every_device_and_the_host_grouped_by_kind(alone: Advisor) -> None:
    said = ended(alone("list"))
    devices = {path.stem for path in find_shipped_profiles().glob("*.yaml") if path.name != CORES_FILE}
    devices |= {"host", *local_runtimes()}
    assert devices <= {line.split()[0] for line in said.out.splitlines() if line.strip()}
    assert said.out.splitlines()[-1].startswith(f"{len(devices)} devices, ")
    tables = said.out.split("\n\n")
    kinds = [{line.split()[1] for line in table.splitlines() if "shipped" in line} for table in tables]
    assert [kind for kind in kinds if len(kind) > 1] == []
    assert {"phone", "board"} <= set().union(*kinds)


def test_filters_leave_what_passes(alone: Advisor) -> None:
    said = alone("list", "--filter", "kind=board", "--filter", "cores=*CORTEX-a76*", "--json")
    found = said.document
    assert found["schema_version"] == 1
    names = {device["name"] for device in found["devices"]}
    assert {"raspberry-pi-5", "rk3588"} <= names
    assert not {"raspberry-pi-4", "snapdragon-855"} & names
    assert {device["kind"] for device in found["devices"]} == {"board"}
    assert ended(alone("list", "--filter", "soc=abacus")).out == "no device passes these filters\n"
    assert "--filter" in ended(alone("list", "--filtre", "kind=phone"), 2).err


@with_cases
def test_the_processor_is_found_by_soc_core_or_npu(condition: str, name: str) -> None:
    profiles = tuple(load_profiles().values())
    assert name in {profile.name for profile in DEVICES.select(filters=[condition]).of(profiles)}


def test_a_device_is_shown_whole(alone: Advisor, board: Path) -> None:
    said = ended(alone("show", "our-board", "--profiles", "."))
    for part in read_table(__file__, "texts.yaml")["parts_of_a_device"]:
        assert part in said.out


def test_a_device_as_json_has_counts_and_sources(alone: Advisor) -> None:
    found = alone("show", "stm32h743", "--json").document
    device, rows = found["device"], read_profile(find_shipped_profiles() / "stm32h743.yaml").measurements
    assert found["schema_version"] == 1
    assert device["limits"] == {"arena_bytes": 512 * 1024, "flash_bytes": 2048 * 1024, "package_bytes": None}
    assert device["measurements"] + device["measurements_not_used"] == len(rows)
    assert sum(device["measurement_sources"].values()) == len(rows)
    assert sum(target["measurements"] for target in device["targets"]) == device["measurements"]
    assert device["sources"] == ["mit-han-lab/tinyengine"]


@pytest.mark.integration  # Chromium says its version
def test_every_device_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for profile in load_profiles().values():
        print_device(profile)
        shown = capsys.readouterr().out
        assert all(f"  {target.name}: {target.runtime}" in shown for target in profile.targets)
        assert all(source in shown for source in profile.sources)


def test_phones_are_listed_by_their_names(alone: Advisor) -> None:
    found = alone("list", "--phones", "--filter", "title=*Galaxy S24*", "--json").document["devices"]
    assert {(device["name"], device["provenance"]) for device in found} >= {
        ("galaxy-s24", "shipped"),
        ("galaxy-s24-exynos-2400", "predicted"),
        ("galaxy-s24-ultra", "predicted"),
    }
    assert "host" not in {device["name"] for device in found}


@pytest.mark.usefixtures("board")
@with_cases
def test_what_is_not_there_is_refused(alone: Advisor, tmp_path: Path, arguments: str, words: str) -> None:
    (tmp_path / "taken").write_text("")
    (tmp_path / "empty").mkdir()
    said = alone(*arguments.split())
    refused(said, words)
    assert "internal" not in said.err


def test_an_added_device_is_kept_whole_and_shown_and_a_removed_one_gone(alone: Advisor, board: Path, own: Path) -> None:
    said = ended(alone("add", board.name))
    assert "our-board: 2 targets, 3 measurements" in said.out
    assert files(own) == ["our-board.csv", "our-board.yaml"]
    assert read_profile(own / "our-board.yaml") == read_profile(board)
    assert alone("show", "our-board").code == 0
    write(own, BOARD.replace("our-board", "other"), "other")
    said = ended(alone("remove", "our-board"))
    assert said.out.splitlines() == [f"removed {own / 'our-board.yaml'}", f"removed {own / 'our-board.csv'}"]
    assert files(own) == ["other.csv", "other.yaml"]


def test_an_added_and_a_removed_device_are_told_to_programs(alone: Advisor, board: Path, own: Path) -> None:
    added = json.loads(alone("add", str(board), "--json").out)
    path = own / "our-board.yaml"
    assert added == {"schema_version": 1, "device": "our-board", "path": str(path), "replaced": False}
    removed = alone("remove", "our-board", "--json").document
    assert removed == {"schema_version": 1, "removed": [str(path), str(path.with_suffix(".csv"))]}


def test_a_profile_without_measurements_is_added_and_a_bad_one_removed(alone: Advisor, board: Path, own: Path) -> None:
    board.with_suffix(".csv").unlink()
    assert alone("add", board.name).code == 0
    assert read_profile(own / "our-board.yaml").measurements == ()
    write(own, "no: [profile")
    assert alone("remove", "our-board").code == 0
    assert files(own) == []


def test_a_device_is_replaced_by_force_only_and_never_by_itself(alone: Advisor, board: Path, own: Path) -> None:
    write(own, BOARD.replace("second", "first"))
    refused(alone("add", board.name), "already", "--force")
    assert read_profile(own / "our-board.yaml").title == "Board of the first series"
    said = ended(alone("add", board.name, "--force"))
    assert f"replaced {own / 'our-board.yaml'}" in said.out
    assert read_profile(own / "our-board.yaml").title == "Board of the second series"
    path = write(own, f"# a comment\n{BOARD}")
    ended(alone("add", str(path), "--force"), 2)
    assert path.read_text().startswith("# a comment")


def test_what_hides_a_shipped_profile_is_said_and_the_host_is_not_added(alone: Advisor, tmp_path: Path) -> None:
    write(tmp_path, BOARD.replace("our-board", "pixel-4"), "pixel-4")
    said = ended(alone("add", "pixel-4.yaml"))
    assert "instead of the shipped profile" in said.out
    said = ended(alone("add", write(tmp_path, BOARD.replace("our-board", "host"), "host").name), 2)
    assert "the profile of 'host' is not written" in said.err


def test_a_refused_profile_leaves_nothing(alone: Advisor, tmp_path: Path, own: Path) -> None:
    path = write(tmp_path, BOARD, rows=ROWS.replace("80.5", "0"))
    refused(alone("add", path.name), "our-board.csv:2: latency_ms 0 is not a latency")
    assert not own.exists()


def test_the_shipped_profiles_are_neither_added_to_nor_removed_from(alone: Advisor, board: Path) -> None:
    shipped = str(find_shipped_profiles())
    for arguments in (("add", board.name, "--into", shipped), ("remove", "pixel-4", "--from", shipped)):
        refused(alone(*arguments), "contains the shipped profiles")
    assert (find_shipped_profiles() / "pixel-4.yaml").is_file()
    assert not (find_shipped_profiles() / "our-board.yaml").exists()


@with_cases
def test_what_is_not_the_users_own_is_not_removed(alone: Advisor, own: Path, name: str, reason: str) -> None:
    write(own)
    outside = write(own.parent, BOARD.replace("our-board", "outside"), "outside")
    refused(alone("remove", name), reason)
    assert outside.is_file()
    assert files(own) == ["our-board.csv", "our-board.yaml"]


@with_cases
def test_what_cannot_be_calibrated_is_named(alone: Advisor, own: Path, arguments: tuple[str, ...], reason: str) -> None:
    write(own)
    said = ended(alone("calibrate", *arguments), 2)
    assert reason in said.err
    assert (own / "our-board.csv").read_text() == ROWS


def test_how_a_device_is_reached_is_kept_and_shown(alone: Advisor, tmp_path: Path) -> None:
    (tmp_path / "our-board.yaml").write_text(BOARD + "connection: {ssh: pi@board.local}\n")
    assert alone("add", "our-board.yaml").code == 0
    assert "ssh pi@board.local" in alone("show", "our-board").out
    told = alone("show", "our-board", "--json").document["device"]
    assert told["connection"] == {"by": "ssh", "name": "pi@board.local"}


def test_a_folder_with_an_escape_sequence_is_shown_with_it_escaped(alone: Advisor, board: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31mb"
    said = ended(alone("add", str(board), "--into", str(folder)))
    assert "\x1b" not in said.out
    assert "kept in " in said.out
    assert list(folder.iterdir())


def test_a_target_says_how_many_kernels_were_timed_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_device(OURS)
    lines = [line for line in capsys.readouterr().out.splitlines() if "0 measured" in line]
    assert ["1 kernel timed" in line for line in lines] == ["cpu-x1:" in line for line in lines]
    assert any("cpu-x1:" in line for line in lines)


def measured(latency_ms: Mapping[Key, float]) -> MeasuredNetworks:
    """Return networks that were measured at one thread."""
    return MeasuredNetworks(
        {key: Timing(Path("a"), 1, ms, 8, ms, ms, "tflite", cpu_ms=ms) for key, ms in latency_ms.items()}, ()
    )


def test_a_calibration_shows_each_form_its_errors_and_what_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    reports = (
        CalibrationReport("float32", ("small",), (0.5,), (), 0.3, 0.1),
        CalibrationReport("int8", ("small",), (-0.25,), (), 0.4, math.nan),
    )
    networks = measured({("small", "float32"): 6.5, ("small", "int8"): 2.5})
    networks = replace(networks, left_out=("vit int8: its threads waited 20% of the time for a processor",))
    kernels = ("ADD 4 x 4, int8: too long",)
    print_calibrated(Calibrated(OURS, OURS.target("cpu-x1"), networks, reports, Path("a.yaml"), kernels))
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "our-board:cpu-x1, measured with tflite"
    assert ["predicted +50% before" in lines[2], "predicted -25% before" in lines[6]] == [True, True]
    assert "expected median error of models that were not measured: 30% before, 10% after" in lines[4]
    assert "left out: vit int8: its threads waited 20% of the time for a processor; close other" in shown
    assert lines[10:] == ["1 kernel timed, 1 left out", "  left out: ADD 4 x 4, int8: too long", "kept in a.yaml"]


def test_a_measurement_that_contradicts_the_others_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    report = CalibrationReport("float32", ("small",), (3.0,), (), math.nan, math.nan, {"small": 2.0})
    networks = measured({("small", "float32"): 8.0})
    print_calibrated(Calibrated(OURS, OURS.target("cpu-x1"), networks, (report,), Path("a.yaml")))
    assert "\n  small contradicts the others, which expect 2.00 ms: measure it again\n" in capsys.readouterr().out
