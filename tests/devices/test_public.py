"""``advisor.devices`` from a script: the functions behind the commands."""

from pathlib import Path

import pytest

from advisor import devices
from advisor.core import UsageError
from tests.builders import must_fail, write_file
from tests.tables import read_table

BOARD = read_table(__file__, "texts.yaml")["board"]


@pytest.fixture(autouse=True)
def team_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the test's own."""
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return write_file(tmp_path / "our-board.yaml", BOARD)


def test_this_machine_is_listed_first_and_a_further_folder_where_it_is_named(board: Path, tmp_path: Path) -> None:
    names = [profile.name for profile in devices.list_devices() if profile.origin is not None or profile.name == "host"]
    assert names == ["host", *sorted(names[1:])]
    path = devices.add(board, into=tmp_path / "team").path
    assert path.parent == tmp_path / "team"
    assert devices.show("our-board", profiles=[path.parent]).origin == path
    assert path in devices.remove("our-board", folder=path.parent)


def test_options_of_adb_need_a_phone(board: Path) -> None:
    devices.add(board)
    must_fail(UsageError, "need adb", devices.calibrate, "our-board", cores="f0")


def test_the_targets_are_a_table_with_units_in_its_names() -> None:
    every = devices.to_frame()
    found = every[every["device"] == "raspberry-pi-5"]
    assert found["is_default"].sum() == 1
    assert (found["memory_bytes"] > 1e9).all()
    assert set(found["accelerator"]) >= {"cpu"}
