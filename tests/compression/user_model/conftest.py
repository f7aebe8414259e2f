"""Files and folders of a user's own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.engine import prepare_compression as ask
from advisor.engine._compress.question import CompressionQuestion
from advisor.isolation import ChildPool
from advisor.tflite import Metadata
from tests.builders import write_file
from tests.compression.user_model.questions import CLASSES, Asked
from tests.makers.imports import InThisProcess


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in this process what else runs in child processes, whose limits are no subject; values travel alike."""
    monkeypatch.setattr(ChildPool, "call", InThisProcess.call)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    def ask_here(model: Path, *recipes: str, **options: Any) -> CompressionQuestion:
        return ask(model, recipes or ("int8",), **{"to": tmp_path / "forms", **options})

    return ask_here


@pytest.fixture
def described(float_model: bytes, tmp_path: Path) -> Path:
    """The small classifier with labels and normalisation."""
    path = tmp_path / "net.tflite"
    said = Metadata("net", CLASSES, (127.5,), (127.5,), description="a net", licence="MIT")
    path.write_bytes(said.write_into(float_model))
    return path


@pytest.fixture
def plain(float_model: bytes, tmp_path: Path) -> Path:
    """The same without a word."""
    return write_file(tmp_path / "plain.tflite", float_model)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for name in CLASSES:
        (tmp_path / "photos" / name).mkdir(parents=True)
        for count in range(12):
            pixels = random.integers(0, 255, (40, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{count}.png")
    return tmp_path / "photos"
