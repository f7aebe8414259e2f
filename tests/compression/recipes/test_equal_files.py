"""Every recipe makes the same file of the same inputs, whatever the process, its threads and its speed."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.compression import RECIPES, Needs
from tests.compression.recipes import making

pytestmark = pytest.mark.integration

QUICK = [one.name for one in RECIPES if one.needs < Needs.TRAINING]
TRAINED = [one.name for one in RECIPES if one.needs is Needs.TRAINING]


def made(folder: Path, names: Sequence[str], seed: str, threads: str) -> dict[str, str]:
    """Make files in a process with so many threads and at most so many cores, and return their hashes."""
    own = folder / f"by-{seed}"
    own.mkdir()
    variables = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    arguments = (folder / "model.tflite", folder / "images", own, *names)
    done = subprocess.run(
        [sys.executable, "-m", "tests.compression.recipes.making", *arguments],
        env={**os.environ, "PYTHONHASHSEED": seed, **dict.fromkeys(variables, threads)},
        cwd=own,
        preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)]),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def inputs(tmp_path: Path, float_model: bytes, photographs: np.ndarray) -> Path:
    (tmp_path / "model.tflite").write_bytes(float_model)
    (tmp_path / "images").mkdir()
    for place, image in enumerate(photographs[::3]):
        Image.fromarray(np.rint(image * 127.5 + 127.5).astype(np.uint8)).save(tmp_path / "images" / f"{place:02}.png")
    return tmp_path


def test_two_processes_make_the_same_files(inputs: Path) -> None:
    (inputs / "here").mkdir()
    here = making.main(inputs / "model.tflite", inputs / "images", inputs / "here", *QUICK)
    assert here == made(inputs, QUICK, "2", "1")  # one core; this process has all of them


@pytest.mark.slow
def test_two_processes_train_the_same_files(inputs: Path) -> None:
    assert made(inputs, TRAINED, "1", "1") == made(inputs, TRAINED, "2", "3")
