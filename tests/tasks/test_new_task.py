"""A task of another package: one module and one entry point, and a search, a plan and a report know it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import TASKS, UsageError
from advisor.engine import resolve
from advisor.store import RunFolder
from advisor.tflite import read_metadata


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


@pytest.mark.integration
def test_it_trains_judges_and_reports(tmp_path: Path, photographs: Path, search_small: Callable[..., None]) -> None:
    search_small(photographs, tmp_path / "runs", task="brightness")
    run = RunFolder((tmp_path / "runs" / "latest").resolve())
    found = {row.configuration.compression: row for row in run.evaluations()}
    assert set(found) == {"float32", "int8"}
    assert found["float32"].accuracy.value > 60
    assert run.read_json("recommendation.json")["task"] == "brightness"
    metadata = read_metadata((run.path / found["float32"].artefact).read_bytes())
    assert (metadata.labels, metadata.description[:16]) == (("brightness",), "Brightness meter")
    assert "share within a tenth" in (run.path / "report.html").read_text()


def test_what_it_lacks_and_a_misspelt_name_are_refused_with_a_reason(installed_tasks: None, tmp_path: Path) -> None:
    brightness = TASKS["brightness"]
    with pytest.raises(UsageError, match="there is no bundle for brightness"):
        brightness.shipping()
    with pytest.raises(UsageError, match="there are no checks for brightness"):
        brightness.check(tmp_path, None, print)
    with pytest.raises(UsageError, match="did you mean 'brightness'"):
        resolve({"task": "brightnes"})
