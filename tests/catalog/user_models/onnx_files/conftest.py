"""The converter that most of these tests share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.catalog.user_models.onnx_files.graph import PACKAGES
from advisor.core.errors import UsageError
from advisor.store.cache import import_path
from tests.requirements import skip_or_fail


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with onnx2tf."""
    cache = tmp_path_factory.mktemp("packages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADVISOR_CACHE_DIR", str(cache))
        try:
            import_path(PACKAGES)
        except UsageError as error:
            skip_or_fail(f"the package index is out of reach: {error.message}")
    return cache


@pytest.fixture
def own_folders(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the test's own, and the cache with onnx2tf."""
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(packages))


@pytest.fixture
def onnx2tf(own_folders: None) -> Iterator[None]:
    """The converter in this process: a child for every test would take five seconds."""
    folder = import_path(PACKAGES).split(os.pathsep)[0]
    sys.path.append(folder)
    yield
    sys.path.remove(folder)
