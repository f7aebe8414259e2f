"""A folder of runs, and a client of a server that shows it."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from advisor.integrations.serve._access import Access
from advisor.integrations.serve._pages import Pages
from advisor.reporting import Runs
from advisor.store import RunFolder
from advisor.tasks._counting import COUNTING
from advisor.tasks.detection import DETECTION
from tests.integrations.serve.client import Client
from tests.integrations.serve.shown import COLOURS, ENDED, FORMS, SIDE, finder_files, finished, keep_file
from tests.measurement import small_models
from tests.processes import PATIENCE_S
from tests.run_folders import write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def access() -> Access:
    return Access(8000)


@pytest.fixture
def client(runs: Path, access: Access) -> Iterator[Client]:
    with Client(Pages(Runs(runs), access).app(), access) as client:
        yield client


@pytest.fixture
def address(runs: Path) -> Iterator[str]:
    with Access.open_socket(Access.host, 0) as opened:
        access = Access(opened.getsockname()[1])
        server = access.make_server(Pages(Runs(runs), access).app())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        yield access.address
        server.should_exit = True
        thread.join(PATIENCE_S)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[bytes, bytes]]:
    folder = tmp_path_factory.mktemp("made")
    colours = small_models.brightness(SIDE)
    finders = {task: finder_files(task, folder) for task in (DETECTION.name, COUNTING.name)}
    return {"colours": (colours, small_models.quantized(colours, folder, SIDE)), **finders}


@pytest.fixture
def colours(runs: Path, made: Mapping[str, tuple[bytes, bytes]]) -> RunFolder:
    """A finished run whose files answer with the brightest of three colours, in float32 and int8."""
    run = write_run(runs, [], manifest=ENDED, name="colours")
    for form, model in zip(FORMS, made["colours"], strict=True):
        keep_file(run, form, COLOURS.write_into(model))
    return run


@pytest.fixture
def detectors(runs: Path, made: Mapping[str, tuple[bytes, bytes]]) -> RunFolder:
    """A finished run of detectors of coloured cells, in float32 and int8; objects count from a score of 0.6 on."""
    return finished(runs, DETECTION.name, *made[DETECTION.name])


@pytest.fixture
def counters(runs: Path, made: Mapping[str, tuple[bytes, bytes]]) -> RunFolder:
    """A finished run of networks that mark the centres of coloured cells, in float32 and int8."""
    return finished(runs, COUNTING.name, *made[COUNTING.name])
