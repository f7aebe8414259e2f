"""What every test shares: a cache of its own for fast tests, the pictures of ../shared where they are."""

import ctypes
import gc
import os

# Workers and children share the processors, and threads of BLAS only wait there. NumPy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import re
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from advisor.isolation import IN_CHILD, Scratch
from advisor.isolation._lean_imports import install_lean_imports
from tests.costs import CostReport
from tests.makers import MAKERS
from tests.makers.once import changed_things
from tests.places import PROJECT, SHARED
from tests.unit_guard import UnitGuard

ORDER = ("search", "integration", "unit")
"""Modules with such tests come one after the other."""

WITHOUT_UNIT_TESTS = re.compile(r"^pytestmark = .*pytest\.mark\.(integration|slow)\b", re.MULTILINE)
"""A module whose tests all have such a mark."""

YOUNG_OBJECTS = 50_000
"""New objects before a look for garbage: seventy times as many as usual, for a tenth less CPU time."""

FREE_BYTES = 4_000_000_000
"""Space for temporary files that a whole run needs."""

# The collection of tests makes a million objects that stay.
gc.disable()

# A test never times: a busy machine is no failure. The slow run tries more examples of each property.
settings.register_profile(
    "advisor",
    deadline=None,
    max_examples=int(os.environ.get("EXAMPLES", "25")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("advisor")

# A developer's own cards must not change what the tests see. The next run removes the folder of one that is killed.
SETTINGS = Scratch()
os.environ["ADVISOR_CONFIG_DIR"] = str(SETTINGS.path)

# Children do not import from the current folder; some run functions of the tests.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))


def pytest_configure(config: pytest.Config) -> None:
    """Watch the unit tests, load TensorFlow as child processes do, and refuse too little space for temporary files."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES and not hasattr(config, "workerinput"):
        raise pytest.UsageError(
            f"{folder} has {free / 1e9:.1f} GB free, and the tests need {FREE_BYTES / 1e9:.0f} GB: "
            "free some, or set TMPDIR to another folder"
        )
    # The controller of several workers runs no test, and the modules of fixtures take it a second.
    if config.option.collectonly or getattr(config.option, "dist", "no") == "no":
        for name in MAKERS:
            config.pluginmanager.import_plugin(name)
    install_lean_imports()
    config.pluginmanager.register(UnitGuard(), "unit-guard")
    os.environ[IN_CHILD] = "1"  # the process of the tests reads files itself, as a child process does
    config.pluginmanager.register(CostReport(), "cost-report")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules without a unit test out where only unit tests run: else every worker imports them for nothing."""
    if config.option.markexpr != "unit" or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return True if WITHOUT_UNIT_TESTS.search(text) else None


def pytest_collection_finish() -> None:
    """Collect garbage from now on, without a look at the million objects of the collection."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test as one of ``unit``, ``integration`` and ``slow``, and let expensive modules come first.

    A module stays with one worker (``--dist loadscope``). Those that read searches come first: no worker ends last with
    a search. Modules of unit tests come last, as they are short.
    """
    order: dict[str, int] = {}
    for item in items:
        item.add_marker(scope_of(item))
        module = module_of(item)
        order[module] = min(order.get(module, len(ORDER)), place_of(item))
    items.sort(key=lambda item: order[module_of(item)])


def module_of(item: pytest.Item) -> str:
    """Return the file of a test."""
    return item.nodeid.partition("::")[0]


def place_of(item: pytest.Item) -> int:
    """Return the place of a test in :data:`ORDER`."""
    if "warm_cache" in getattr(item, "fixturenames", ()):
        return ORDER.index("search")
    return ORDER.index("unit" if scope_of(item) == "unit" else "integration")


def scope_of(item: pytest.Item) -> str:
    """Return the mark of a test: its own, ``integration`` where a fixture starts processes, else ``unit``."""
    for scope in ("slow", "integration"):
        if item.get_closest_marker(scope):
            return scope
    return "integration" if "starts_processes" in getattr(item, "fixturenames", ()) else "unit"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Give memory back after each slow test: glibc keeps 9 GB after a hundred conversions of large networks."""
    if item.get_closest_marker("slow"):
        gc.collect()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if a test has changed what others read, before pytest removes it."""
    if hasattr(session.config, "workerinput"):
        return
    for path in changed_things(session.config._tmp_path_factory.getbasetemp()):  # type: ignore[attr-defined]
        print(f"\n{path} is made once for all tests, and a test has changed it: copy it first")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure() -> None:
    """Leave nothing among the temporary files; a worker of a parallel run does so for itself."""
    SETTINGS.remove()


@pytest.fixture(scope="session")
def starts_processes() -> None:
    """A fixture that starts child processes or loads TensorFlow asks for this one: its tests are integration tests."""


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and a cache of the test's own."""
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ADVISOR_MIRROR", raising=False)


@pytest.fixture(scope="session")
def project() -> Path:
    """Root of the checkout."""
    return PROJECT


@pytest.fixture(scope="session")
def trashnet() -> Path:
    """Folder of 2,527 labelled photographs in six classes."""
    folder = SHARED / "data" / "images" / "trashnet"
    if not folder.is_dir():
        pytest.skip("../shared/data/images/trashnet is not here")
    return folder
