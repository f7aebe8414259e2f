"""A run of a real search with a fleet, and its bundle."""

import shutil
from pathlib import Path

import pytest

import advisor
from advisor.store import RunFolder
from tests.integrations.fleet.fleets import PHONES
from tests.makers.once import make_once
from tests.makers.searches import Searched


@pytest.fixture(scope="session")
def with_fleet(with_images: Searched, shared_folder: Path) -> RunFolder:
    """A copy of the search, answered again for a fleet: the new run lies beside its parent."""

    def answer(folder: Path) -> None:
        (folder / "fleet.csv").write_text(PHONES, encoding="utf-8")
        run = shutil.copytree(with_images.run.path, folder / "runs" / with_images.run.path.name, symlinks=True)
        answered = advisor.reevaluate_fleet(run, str(folder / "fleet.csv")).run
        (folder / "name.txt").write_text(Path(answered).name, encoding="utf-8")

    folder = make_once(shared_folder / "with-fleet", answer)
    return RunFolder.open(folder / "runs" / (folder / "name.txt").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def tiers(with_fleet: RunFolder, shared_folder: Path) -> Path:

    def export(folder: Path) -> None:
        advisor.export(with_fleet.path, folder / "bundle", targets=["tiers"], web=False)

    return make_once(shared_folder / "tiers", export) / "bundle"
