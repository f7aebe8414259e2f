"""Sources for a firmware: the model, its arena and its operators."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.integrations import microcontroller as micro
from advisor.integrations.microcontroller.firmware import MARGIN, name_method, write_firmware
from advisor.store import RunFolder
from advisor.tflite import micro_arena, read
from tests.builders import write_file
from tests.devices.requirements import require_micro
from tests.makers.bundles import export_form
from tests.measurement import small_models

SETTINGS, DATA = "microcontroller/model_settings.h", "microcontroller/model_data.cc"

RESOLVER = (Path(__file__).parent / "resolver.h").read_text(encoding="utf-8")
"""What the sources use of TensorFlow Lite Micro."""

MAIN = (Path(__file__).parent / "main.cc").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return small_models.quantized(small_models.classifier(), tmp_path_factory.mktemp("int8"), 32)


@pytest.fixture(scope="module")
def made(int8: bytes) -> dict[str, str]:
    require_micro()
    return write_firmware(int8, (127.5,), (127.5,))


@pytest.mark.integration
def test_the_arena_is_the_smallest_that_the_interpreter_takes(made: dict[str, str]) -> None:
    assert "constexpr size_t kTensorArenaSize = 14912;" in made[SETTINGS]
    assert "the smallest with which TensorFlow Lite Micro 0." in made[SETTINGS]
    assert "kMean[] = {127.5f, 127.5f, 127.5f}" in made[SETTINGS]


@pytest.mark.integration
def test_the_array_is_the_model(made: dict[str, str], int8: bytes) -> None:
    assert bytes(int(byte, 16) for byte in re.findall(r"0x([0-9a-f]{2})", made[DATA])) == int8


@pytest.mark.integration
def test_a_compiler_takes_the_sources(made: dict[str, str], tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    write_file(tmp_path / "tensorflow" / "lite" / "micro" / "micro_mutable_op_resolver.h", RESOLVER)
    for name, text in made.items():
        (tmp_path / Path(name).name).write_text(text)
    (tmp_path / "main.cc").write_text(MAIN)
    program = tmp_path / "program"
    command = [compiler, "-std=c++17", "-Wall", "-Werror", "-I.", "main.cc", "model_data.cc", "-o", str(program)]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([program], check=False).returncode == 0


@pytest.mark.integration
def test_a_file_that_the_interpreter_does_not_run_is_refused_with_the_operator(made: dict[str, str]) -> None:
    assert made
    with pytest.raises(UsageError, match="--microcontroller: .* has no CUSTOM:Nobody"):
        write_firmware(small_models.unknown_operator(), (0.0,), (1.0,))


def test_without_the_interpreter_the_arena_has_a_margin(int8: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro, "available", lambda: False)
    text = write_firmware(int8, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))[SETTINGS]
    found = re.search(r"kTensorArenaSize = (\d+)", text)
    computed = micro_arena(read(int8)).total
    assert computed < int(found[1]) <= computed * MARGIN + 16
    assert "computed with a margin of 2%" in text


def test_a_custom_operator_is_left_to_the_team(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro, "available", lambda: False)
    text = write_firmware(small_models.unknown_operator(), (0.0,), (1.0,))[SETTINGS]
    assert "The custom operator 'Nobody' is not included" in text


def test_methods_have_the_names_of_the_resolver() -> None:
    operators = ("CONV_2D", "L2_POOL_2D", "RESIZE_NEAREST_NEIGHBOR", "PADV2", "CUSTOM:TFLite_Detection_PostProcess")
    names = ["AddConv2D", "AddL2Pool2D", "AddResizeNearestNeighbor", "AddPadV2", "AddDetectionPostprocess"]
    assert [name_method(operator) for operator in operators] == names


@pytest.mark.integration
def test_the_bundle_holds_the_measured_file_as_an_array(trained: RunFolder, tmp_path: Path) -> None:
    bundle = export_form(trained, "int8", tmp_path / "b", targets=("microcontroller",))
    measured = (bundle.path / "model_measured.tflite").read_bytes()
    assert f"kModelSize = {len(measured)};" in (bundle.path / SETTINGS).read_text()
    assert "C++ for TensorFlow Lite Micro" in (bundle.path / "README.md").read_text()
