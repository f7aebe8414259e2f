"""The real adb client against a small debug daemon, and reading what benchmark_model prints."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import Provenance, StageError, UsageError
from advisor.devices import ConnectionSettings, DeviceTarget, MeasurementJob, Predictor, Profiles
from advisor.devices._connections.adb import AdbConnection
from advisor.devices._connections.attached import states_of
from advisor.devices._connections.benchmark_model import DELEGATES, parse_output
from advisor.measurement._on_device.benchmark import benchmark_on_device
from tests.builders import must_fail, write_file
from tests.makers.phones import Phone
from tests.processes import PATIENCE_S
from tests.tables import read_table, with_cases

PRINTED = (Path(__file__).parent / "adb_printed.txt").read_text(encoding="utf-8")
TOOL = read_table(__file__, "texts.yaml")["tool"]
SERIAL = "R58M12ABCDE"


def test_timings_memory_and_operators_are_read() -> None:
    timing = parse_output(PRINTED, Path("net.tflite"), 4)
    assert (timing.load_ms, timing.first_ms, timing.median_ms) == (17.187, 35.123, 11.85)
    assert (timing.details["max_ms"], timing.details["std_ms"], timing.runs) == (14.9, 0.31, 50)
    assert timing.memory_bytes == round(46.25 * 2**20)
    assert timing.details["delegated"] == (60, 66)
    assert [tuple(row.values()) for row in timing.details["operators"]] == [
        ("Convolution (NHWC, F32) IGEMM", "Delegate/x:0", 2.9, 24.37),
        ("SOFTMAX", "probabilities", 0.01, 0.084),
    ]


def test_an_older_releases_columns_are_read_by_their_header() -> None:
    older = read_table(__file__, "texts.yaml")["older"]
    timing = parse_output(older, Path("net.tflite"), 1)
    assert timing.median_ms == 249.684, "the mean, because the release prints no median"
    assert timing.memory_bytes == round(138.809 * 2**20)
    (row,) = timing.details["operators"]
    assert (row["kind"], row["name"], row["mean_ms"]) == ("CONV_2D", "MobilenetV1/Conv2d_0", 4.107)
    assert timing.details["delegated"] is None
    assert "does not tell" in parse_output(older, Path("net.tflite"), 1, "gpu").placement


@with_cases
def test_what_holds_no_timings_is_a_failed_measurement(text: str, median: str, mean: str, words: str) -> None:
    figures = PRINTED.replace("median=11850", f"median={median}").replace("(avg): 11900.5", f"(avg): {mean}")
    must_fail(StageError, words, parse_output, text.format(figures=figures), Path("net.tflite"), 1)


@pytest.fixture
def connection(phone: Phone, tmp_path: Path) -> AdbConnection:
    """A tool that prints what the real one prints, and its command line to a file."""
    (phone.root / "data" / "local" / "tmp").mkdir(parents=True)
    (tmp_path / "printed").write_text(PRINTED)
    tool = write_file(tmp_path / "benchmark_model", TOOL.format(folder=tmp_path))
    tool.chmod(0o600)
    return AdbConnection(phone.serial, tool)


def test_adb_measures_all_and_cleans_up(connection: AdbConnection, phone: Phone, model: Path, tmp_path: Path) -> None:
    timings = connection.measure(MeasurementJob((model,), threads=(1, 4)))
    assert [(t.model, t.threads, t.median_ms, t.load_ms) for t in timings] == [
        (model, 1, 11.85, 17.187), (model, 4, 11.85, 17.187)
    ]  # fmt: skip
    called = (tmp_path / "called").read_text().splitlines()
    assert ["--num_threads=1" in called[0], "--num_threads=4" in called[1]] == [True, True]
    assert "--enable_op_profiling=true" in called[0]
    assert not list((phone.root / "data" / "local" / "tmp").iterdir())


def test_hostile_names_reach_no_shell(connection: AdbConnection, phone: Phone, model: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    hostile = write_file(tmp_path / f"-s x $(touch {trap.name}) ; touch t & `touch t` 'x'.tflite", model.read_bytes())
    arguments = (f"--x=$(touch {trap})", f"; touch {trap} #")
    (timing,) = replace(connection, arguments=arguments, cores="1").measure(MeasurementJob((hostile,)))
    assert timing.model == hostile
    assert any(command.startswith("taskset 1 /data/local/tmp/") for command in phone.daemon.commands)
    assert f"--x=$(touch {trap}) ; touch {trap} #" in (tmp_path / "called").read_text()
    assert not trap.exists()


@with_cases
def test_what_is_no_serial_or_no_mask_is_refused(tmp_path: Path, serial: str, cores: str, words: str) -> None:
    must_fail(UsageError, words, AdbConnection, serial, tmp_path, cores=cores)


def test_a_device_not_attached_is_named_with_the_others(connection: AdbConnection, phone: Phone, model: Path) -> None:
    with pytest.raises(UsageError, match="no device emulator-9998") as caught:
        replace(connection, serial="emulator-9998").measure(MeasurementJob((model,)))
    assert phone.serial in caught.value.hint


def test_a_tool_that_is_missing_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none' is not a file") as caught:
        ConnectionSettings("adb", "emulator-5554", benchmark_model=tmp_path / "none").connect()
    assert "benchmark_model" in caught.value.hint


def test_a_phone_without_room_is_a_failed_measurement(connection: AdbConnection, phone: Phone, model: Path) -> None:
    tmp = phone.root / "data" / "local" / "tmp"
    tmp.rmdir()
    tmp.write_text("not a folder")
    must_fail(StageError, "make a folder", connection.measure, MeasurementJob((model,)))


def test_a_phone_that_vanishes_is_a_failed_measurement(connection: AdbConnection, phone: Phone, model: Path) -> None:
    phone.daemon.vanish_on = "--graph="
    must_fail(StageError, "disconnected", connection.measure, MeasurementJob((model,), timeout_s=PATIENCE_S))


def test_benchmark_reads_a_phones_figures_as_measured(
    connection: AdbConnection, model: Path, profiles: Profiles, predictor: Predictor
) -> None:
    target = DeviceTarget("tflite-gpu", "tflite", "gpu")
    board = replace(profiles["pixel-4"], targets=(target,), default_target=target.name)
    found = benchmark_on_device([model], board, target, connection, lambda: predictor)
    (row,) = found.rows
    assert (row.latency.value, row.latency.provenance, row.result) == (11.85, Provenance.MEASURED, None)
    assert row.memory_bytes == round(46.25 * 2**20)
    assert [told.accelerator.name for _, told in found.delegations] == ["gpu"]


def test_a_phones_accelerator_is_asked_of_the_tool_by_its_option(connection: AdbConnection, model: Path) -> None:
    reach = ConnectionSettings("adb", connection.serial, benchmark_model=connection.binary)
    for kind, option in (("gpu", "--use_gpu=true"), ("npu", "--use_nnapi=true")):
        made = reach.connect(kind)
        assert isinstance(made, AdbConnection)
        assert DELEGATES[made.unit] == (option,)
    must_fail(UsageError, "no option for 'tpu'", reach.connect, "tpu")


@pytest.mark.parametrize("remarks", ["", " product:husky model:Pixel_8_Pro device:husky transport_id:1"])
def test_the_state_is_what_stands_before_remarks(remarks: str) -> None:
    text = f"* daemon started successfully\nList of devices attached\n{SERIAL}\tdevice{remarks}\n\n"
    assert states_of(text) == {SERIAL: "device"}


@with_cases
def test_each_state_has_a_message_and_a_remedy(
    starts_processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, message: str, hint: str
) -> None:
    program = tmp_path / "adb"
    program.write_text(f"#!/bin/sh\nprintf 'List of devices attached\\n{SERIAL}\\t{listed}\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    tool = write_file(tmp_path / "benchmark_model", "")
    refused = must_fail(UsageError, "", AdbConnection(SERIAL, tool).measure, MeasurementJob((tool,)))
    assert message in refused.message
    assert hint in refused.hint
