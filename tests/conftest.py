"""What every test shares: a cache of its own for fast tests, the pictures of ../shared where they are."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# A test never times: a busy machine is no failure.
settings.register_profile("advisor", deadline=None)
settings.load_profile("advisor")

# A developer's own cards must not change what the tests see.
os.environ["ADVISOR_CONFIG_DIR"] = tempfile.mkdtemp(prefix="advisor-tests-")

PROJECT = Path(__file__).resolve().parents[1]
SHARED = PROJECT.parent / "shared"


def pytest_unconfigure() -> None:
    """Leave nothing among the temporary files; a worker of a parallel run does so for itself."""
    shutil.rmtree(os.environ["ADVISOR_CONFIG_DIR"], ignore_errors=True)


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
