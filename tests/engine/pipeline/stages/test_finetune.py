"""Fine-tuning as a dimension of the search, end to end on real weights and real pictures."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.makers.searches import SMALLEST, command, environment

pytestmark = pytest.mark.slow

OPTIONS = ("--candidates", SMALLEST, "--compressions", "float32,int8", "--threads", "1", "--training", "finetune_top")


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """Patches of noise, by what they are blurred along. A fifth has the wrong label, so no head is right on all."""
    import numpy as np
    from PIL import Image, ImageFilter

    rng = np.random.default_rng(0)
    for name, ahead in (("level", True), ("upright", False)):
        (tmp_path / "hard" / name).mkdir(parents=True)
        for number in range(40):
            noise = rng.integers(0, 256, (96, 96, 3)).astype(np.float32)
            along = ahead != (number % 5 == 0)
            noise = np.stack([np.roll(noise, step, axis=1 if along else 0) for step in range(3)]).mean(axis=0)
            image = Image.fromarray(noise.astype(np.uint8)).filter(ImageFilter.GaussianBlur(1))
            image.save(tmp_path / "hard" / name / f"{number}.png")
    return tmp_path / "hard"


def test_a_killed_training_goes_on_after_its_last_epoch(hard: Path, empty_results: Path, tmp_path: Path) -> None:
    killed = subprocess.Popen(
        command("--data", str(hard), "--out", str(tmp_path / "runs"), *OPTIONS),
        env=environment(empty_results), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    before = _after_epochs(empty_results, 2, killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    done = subprocess.run(
        command("--resume", str(tmp_path / "runs" / "latest")),
        env=environment(empty_results), capture_output=True, text=True, timeout=540, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = (empty_results / "artifacts" / "finetune_top-2").glob("*/result.json")
    after = max((json.loads(result.read_text())["history"] for result in results), key=len)
    assert after[: len(before)] == before
    assert not list((empty_results / "artifacts").glob("finetune_top-2/*.checkpoints"))


def _after_epochs(cache: Path, count: int, killed: subprocess.Popen[bytes]) -> list[dict[str, float]]:
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        assert killed.poll() is None, "the search ended before it was killed"
        for state in cache.glob("artifacts/finetune_top-2/*.checkpoints/state.json"):
            history: list[dict[str, float]] = json.loads(state.read_text())["history"]
            if len(history) >= count:
                return history
        time.sleep(0.2)
    pytest.fail("no epoch was trained in time")
