"""A run of a real search with a fleet, and its bundle."""

import shutil

import pytest

import advisor
from advisor.exporting.bundle import Bundle
from advisor.store import RunFolder
from tests.fleet.fleets import PHONES
from tests.makers.searches import Searched


@pytest.fixture(scope="session")
def with_fleet(with_images: Searched, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A copy of the search, answered again for a fleet: the new run lies beside its parent."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "fleet.csv").write_text(PHONES, encoding="utf-8")
    run = shutil.copytree(with_images.run.path, folder / "runs" / with_images.run.path.name, symlinks=True)
    return RunFolder.open(advisor.reevaluate_fleet(run, str(folder / "fleet.csv")).run)


@pytest.fixture(scope="session")
def tiers(with_fleet: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Its bundle with the files for the fleet."""
    return advisor.export(with_fleet.path, tmp_path_factory.mktemp("tiers") / "bundle", targets=["tiers"], web=False)
