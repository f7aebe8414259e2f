"""The GPU through LiteRT's accelerator: right outputs on SwiftShader, a software renderer; never a speed."""

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.measurement import Accelerator, Delegation
from advisor.measurement._on_device.gpu import benchmark_on_gpu
from advisor.tflite import read
from tests.builders import must_fail
from tests.documents import problems
from tests.makers.fetched import fetch_once, run_command
from tests.measurement import small_models
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration

PACKAGE = "@sparticuz/chromium@147.0.0"
UNPACK = "const z=require('zlib'),f=require('fs');f.writeFileSync('s.tar',z.brotliDecompressSync(f.readFileSync('%s')))"


def fetch_swiftshader() -> Path:
    """Return the folder of SwiftShader's libraries, out of the npm package."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        skip_or_fail("npm and node are not installed: SwiftShader comes in an npm package")
    home = fetch_once("swiftshader-147.0.0", fetch_into)
    driver = {"library_path": str(home / "libvk_swiftshader.so"), "api_version": "1.0.5"}
    (home / "driver.json").write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
    return home


def fetch_into(work: Path) -> None:
    run_command(["npm", "pack", PACKAGE], work)
    (archive,) = work.glob("*.tgz")
    inside = "package/bin/swiftshader.tar.br"
    with tarfile.open(archive) as tar:
        tar.extract(inside, work, filter="data")
    run_command(["node", "-e", UNPACK % inside], work)
    with tarfile.open(work / "s.tar") as tar:
        tar.extractall(work, filter="data")
    archive.unlink()
    shutil.rmtree(work / "package")


@pytest.mark.timeout(300)
def test_outputs_agree_with_the_cpus_and_no_speed_is_told(
    float_model: Path, int8_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a float32 file and an int8 file. A file that cannot run there has failed."""
    home = fetch_swiftshader()
    monkeypatch.setenv("VK_ICD_FILENAMES", str(home / "driver.json"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(home))
    wrong = small_models.saved(tmp_path, small_models.unknown_operator(), "custom.tflite")
    found = benchmark_on_gpu([float_model, int8_model, wrong], "load")
    assert problems("device_benchmark", json.loads(json.dumps(found.to_json()))) == []
    assert [row.status for row in found.rows] == ["checked", "checked", "failed"]
    for row in found.rows[:2]:
        assert row.agreement.alike
        assert row.agreement.same_answer
        told = Delegation.of_operators(read(Path(row.model)), Accelerator.find("gpu"))
        assert row.agreement.whole is (told.share == 1.0)
        assert (row.latency, row.result, row.first_ms) == (None, None, None)
    assert found.rows[2].failure.startswith("custom.tflite: ")
    assert "SwiftShader" in found.connection
    assert "not how fast a GPU is" in found.notes[0]


def test_without_a_gpu_there_is_one_clear_line(float_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", os.devnull)
    caught = must_fail(UsageError, "LiteRT finds no GPU on this machine", benchmark_on_gpu, [float_model], "load")
    assert f"advisor profile {float_model} --accelerator gpu" in caught.hint
