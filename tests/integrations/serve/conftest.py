"""A folder of runs, and a client of a server that shows it."""

import hashlib
import io
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from PIL import Image

from advisor.core.evaluation_facts import BoxFacts, ClassBoxes, ImageAnswers
from advisor.integrations.serve import bound
from advisor.integrations.serve.access import HOST, Access, ImpatientConnection
from advisor.integrations.serve.pages import Pages
from advisor.reporting.files import write_all
from advisor.reporting.runs import Runs
from advisor.reporting.view import load_view
from advisor.store import RunFolder
from advisor.tasks import COUNTING, DETECTION
from advisor.tflite.metadata import Metadata, read_metadata, write_metadata
from advisor.tflite.postprocess import cut_postprocess, put_back
from tests.builders import evaluation
from tests.detectors import COLOURS as COLOUR_NAMES, SIDE as CELLS_SIDE, detector_file, marker_file
from tests.integrations.serve.client import Client
from tests.measurement import small_models
from tests.processes import PATIENCE_S
from tests.run_folders import write_run

ENDED = {"configurations": 3, "stopped": {"why": "complete", "text": "every configuration was evaluated"}}
COLOURS = Metadata("colours", ("red", "green", "<b>blue"), (127.5,), (127.5,))
SIDE = 8
FORMS = ("float32", "int8")


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
def address(runs: Path) -> Iterator[str]:
    """The address of a server in a thread."""
    with bound(HOST, 0) as opened:
        access = Access(opened.getsockname()[1])
        app = Pages(Runs(runs), access).app()
        config = uvicorn.Config(app, http=ImpatientConnection, log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        opened.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{access.port}{access.root}/"
        server.should_exit = True
        thread.join(PATIENCE_S)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[bytes, bytes]]:
    """A network of each task in float32 and int8."""
    folder = tmp_path_factory.mktemp("made")
    colours = small_models.brightness(SIDE)
    detector = detector_file(folder / "cells.tflite", order=(0, 1, 2, 3)).read_bytes()
    raw, process = cut_postprocess(detector)
    counter = marker_file(folder / "cells.tflite").read_bytes()
    return {
        "colours": (colours, small_models.quantized(colours, folder, SIDE)),
        DETECTION.name: (detector, put_back(small_models.quantized(raw, folder, CELLS_SIDE), process)),
        COUNTING.name: (counter, small_models.quantized(counter, folder, CELLS_SIDE)),
    }


@pytest.fixture
def colours(runs: Path, made: Mapping[str, tuple[bytes, bytes]]) -> RunFolder:
    """A finished run whose files answer with the brightest of three colours, in float32 and int8."""
    run = write_run(runs, [], manifest=ENDED, name="colours")
    for form, model in zip(FORMS, made["colours"], strict=True):
        keep_file(run, form, write_metadata(model, COLOURS))
    return run


@pytest.fixture
def detectors(runs: Path, made: Mapping[str, tuple[bytes, bytes]]) -> RunFolder:
    """A finished run of detectors of coloured cells, in float32 and int8; objects count from a score of 0.6 on."""
    return finished(runs, DETECTION.name, *made[DETECTION.name])


@pytest.fixture
def counters(runs: Path, made: Mapping[str, tuple[bytes, bytes]]) -> RunFolder:
    """A finished run of networks that mark the centres of coloured cells, in float32 and int8."""
    return finished(runs, COUNTING.name, *made[COUNTING.name])


def finished(runs: Path, task: str, floats: bytes, integers: bytes) -> RunFolder:
    """Write a finished run with two files that find objects."""
    run = write_run(runs, [], manifest=ENDED, name=task, request={"task": task, "data": "boxes"})
    by_class = {name: ClassBoxes(8, 6, 0.83, 0.62, 0.25) for name in COLOUR_NAMES}
    judged = ImageAnswers(dict.fromkeys(COLOUR_NAMES, 0.9), boxes=BoxFacts(0.6, None, by_class))
    described = read_metadata(floats)
    assert described is not None
    for form, content in zip(FORMS, (floats, integers), strict=True):
        keep_file(run, form, write_metadata(content, described), judged)
    write_all(load_view(run), run.path)
    return run


def keep_file(run: RunFolder, form: str, content: bytes, judged: ImageAnswers | None = None) -> None:
    """Add an evaluation with this file."""
    name = f"artifacts/colours-{form}.tflite"
    (run.path / name).write_bytes(content)
    made = evaluation("colours", form, latency=1.0 if form == "int8" else 2.0)
    made = replace(made, artefact=name, artefact_sha256=hashlib.sha256(content).hexdigest())
    run.append(replace(made, answers=judged or made.answers))


def photograph(colour: tuple[int, int, int] = (250, 10, 10)) -> bytes:
    """Return a PNG of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(file, "PNG")
    return file.getvalue()


def two_cells() -> bytes:
    """Return a dark PNG, twice as wide as high, with a red cell at the top left and a blue one in the lower half."""
    file, image = io.BytesIO(), Image.new("RGB", (128, 64), (20, 20, 20))
    image.paste((255, 0, 0), (0, 0, 32, 16))
    image.paste((0, 0, 255), (64, 32, 96, 48))
    image.save(file, "PNG")
    return file.getvalue()
