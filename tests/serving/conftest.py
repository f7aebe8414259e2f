"""A folder of runs, and a client of a server that shows it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from advisor.serving.access import Access
from advisor.serving.pages import Pages
from advisor.serving.runs import Runs
from advisor.store import RunFolder
from advisor.tflite.metadata import Metadata
from advisor.tflite.metadata_writer import write_metadata
from tests.builders import evaluation
from tests.measurement import small_models
from tests.run_folders import write_run
from tests.serving.client import Client

ENDED = {"configurations": 3, "stopped": {"why": "complete", "text": "every configuration was evaluated"}}
COLOURS = Metadata("colours", ("red", "green", "<b>blue"), (127.5,), (127.5,))
SIDE = 8


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """An empty folder of runs."""
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def access() -> Access:
    return Access(8000)


@pytest.fixture
def client(runs: Path, access: Access) -> Iterator[Client]:
    """A client that has the token."""
    with Client(Pages(Runs(runs), access).app(), access) as client:
        yield client


@pytest.fixture
def colours(runs: Path, tmp_path: Path) -> RunFolder:
    """A finished run whose files answer with the brightest of three colours, in float32 and int8."""
    run = write_run(runs, [], manifest=ENDED, name="colours")
    floats = small_models.brightness(SIDE)
    for form, model in (("float32", floats), ("int8", small_models.quantized(floats, tmp_path, SIDE))):
        keep_file(run, form, write_metadata(model, COLOURS))
    return run


def keep_file(run: RunFolder, form: str, content: bytes) -> None:
    """Add an evaluation with this file."""
    name = f"artifacts/colours-{form}.tflite"
    (run.path / name).write_bytes(content)
    made = evaluation("colours", form, latency=1.0 if form == "int8" else 2.0)
    run.append(replace(made, artefact=name, artefact_sha256=hashlib.sha256(content).hexdigest()))


def photograph(colour: tuple[int, int, int] = (250, 10, 10)) -> bytes:
    """Return a PNG of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(file, "PNG")
    return file.getvalue()
