"""A task of another package: one module and one entry point, and a search, a plan and a report know it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.store import RunFolder
from advisor.tflite.metadata import read_metadata
from tests.engine.conftest import SMALLEST, environment, shared_folder, warm_cache

__all__ = ["shared_folder", "warm_cache"]

TOY = Path(__file__).with_name("toy")


def advisor(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment that has the package of the task."""
    paths = os.pathsep.join([str(TOY), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "advisor", *arguments]
    return subprocess.run(
        command, env={**environment(cache), "PYTHONPATH": paths}, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Noise of 60 mean values."""
    rng = np.random.default_rng(0)
    for count, level in enumerate(np.linspace(30, 220, 60)):
        folder = tmp_path / "photographs" / ("dark" if level < 125 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(rng.normal(level, 20, (64, 64, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{count}.png")
    return tmp_path / "photographs"


def test_it_takes_three_files_at_most() -> None:
    files = [path for path in TOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) <= 3


@pytest.mark.integration
def test_a_search_trains_judges_compresses_and_reports_it(tmp_path: Path, photographs: Path, warm_cache: Path) -> None:
    options = ("--task", "brightness", "--data", str(photographs), "--candidates", SMALLEST, "--threads", "1")
    runs = tmp_path / "runs"
    done = advisor(warm_cache, "search", *options, "--compressions", "float32,int8", "--out", str(runs))
    assert done.returncode == 0, done.stderr
    assert "share within a tenth" in done.stdout
    run = RunFolder((runs / "latest").resolve())
    found = {row.configuration.compression: row for row in run.evaluations()}
    assert set(found) == {"float32", "int8"}
    floats = found["float32"].accuracy
    assert floats is not None
    assert floats.value > 60
    answer = run.read_json("recommendation.json")
    assert answer["task"] == "brightness"
    metadata = read_metadata((run.path / found["float32"].artefact).read_bytes())
    assert metadata is not None
    assert (metadata.labels, metadata.description[:16]) == (("brightness",), "Brightness meter")
    assert "share within a tenth" in (run.path / "report.html").read_text()
    exported = advisor(warm_cache, "export", str(run.path), "--to", str(tmp_path / "bundle"))
    assert exported.returncode == 2
    assert "there is no bundle for brightness" in exported.stderr


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("data", "check", "photographs", "--task", "brightness", "--no-labels"), "there are no checks for brightness"),
        (("plan", "--task", "brightnes"), "did you mean 'brightness'"),
    ],
)
def test_a_check_of_its_images_and_a_misspelt_name_are_refused_with_a_reason(
    photographs: Path, tmp_path: Path, command: tuple[str, ...], words: str
) -> None:
    done = advisor(tmp_path, *(str(photographs) if word == photographs.name else word for word in command))
    assert done.returncode == 2
    assert words in done.stderr
