"""A task of another package: one module and one entry point, and a search, a plan and a report know it."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import tasks
from advisor.core.errors import UsageError
from advisor.engine.question import resolve
from advisor.store import RunFolder
from advisor.tasks.task import Task
from advisor.tflite.metadata import read_metadata
from tests.makers.searches import SMALLEST, command, environment

TOY = Path(__file__).with_name("toy")


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Noise of 40 mean values."""
    rng = np.random.default_rng(0)
    for count, level in enumerate(np.linspace(30, 220, 40)):
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
    paths = os.pathsep.join([str(TOY), os.environ.get("PYTHONPATH", "")])  # an environment that has the package
    done = subprocess.run(
        command(*options, "--compressions", "float32,int8", "--workers", "1", "--out", str(runs)),
        env={**environment(warm_cache), "PYTHONPATH": paths}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "share within a tenth" in done.stdout
    run = RunFolder((runs / "latest").resolve())
    found = {row.configuration.compression: row for row in run.evaluations()}
    assert set(found) == {"float32", "int8"}
    floats = found["float32"].accuracy
    assert floats.value > 60
    answer = run.read_json("recommendation.json")
    assert answer["task"] == "brightness"
    metadata = read_metadata((run.path / found["float32"].artefact).read_bytes())
    assert (metadata.labels, metadata.description[:16]) == (("brightness",), "Brightness meter")
    assert "share within a tenth" in (run.path / "report.html").read_text()


@pytest.fixture
def brightness(monkeypatch: pytest.MonkeyPatch) -> Task:
    """The task, whose package is installed for this process."""
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setitem(vars(tasks.TASKS), "_all", dict(tasks._Tasks()))
    return tasks.TASKS["brightness"]


def test_what_it_does_not_have_and_a_misspelt_name_are_refused_with_a_reason(brightness: Task, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no bundle for brightness"):
        brightness.shipping()
    with pytest.raises(UsageError, match="there are no checks for brightness"):
        brightness.check(tmp_path, None, print)
    with pytest.raises(UsageError, match="did you mean 'brightness'"):
        resolve({"task": "brightnes"})
