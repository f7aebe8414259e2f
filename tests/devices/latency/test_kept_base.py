"""The fit of the predictor is kept in the cache, and never a wrong one."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from advisor.devices._latency import kept_base
from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.kept_base import ARRAYS, MOST_FILES, find_base, keep_base, recall_base
from tests.devices.test_latency import made_table


@pytest.fixture
def base() -> Base:
    find_base.cache_clear()
    return fit_base(made_table())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    return tmp_path / "predictors"


def test_a_kept_fit_is_the_same_and_another_table_has_none(base: Base) -> None:
    assert recall_base(base.table) is None
    keep_base(base)
    kept = recall_base(base.table)
    assert kept is not None
    assert all(np.array_equal(getattr(kept, name), getattr(base, name)) for name in (*ARRAYS, "gram"))
    assert recall_base(made_table(seed=1)) is None


def test_a_process_that_finds_a_kept_fit_makes_none(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    find_base(base.table)
    find_base.cache_clear()
    monkeypatch.setattr(kept_base, "fit_base", None)
    assert np.array_equal(find_base(base.table).filled, base.filled)


@pytest.mark.parametrize("damage", ["cut", "text", "other shape", "not finite", "folder"])
def test_a_damaged_file_is_no_fit(base: Base, folder: Path, damage: str) -> None:
    keep_base(base)
    (file,) = folder.iterdir()
    arrays = {name: getattr(base, name) for name in ARRAYS}
    if damage in ("cut", "text"):
        file.write_bytes(file.read_bytes()[:-100] if damage == "cut" else b"no fit")
    elif damage == "other shape":
        np.savez(file, **{**arrays, "levels": base.levels[:-1]})
    elif damage == "not finite":
        np.savez(file, **{**arrays, "levels": base.levels * np.nan})
    else:
        file.unlink()
        file.mkdir()
    assert recall_base(base.table) is None


def test_few_fits_are_kept_and_without_a_cache_nothing_fails(base: Base, folder: Path) -> None:
    for seed in range(MOST_FILES + 2):
        keep_base(
            Base(made_table(seed=seed), base.space, base.gram, base.filled, base.smooth, base.weights, base.levels)
        )
    mine = folder / "mine.npz"
    mine.write_text("not of this package")
    os.utime(mine, (0, 0))
    keep_base(base)
    assert mine.exists()
    assert len(list(folder.iterdir())) == MOST_FILES + 1
    shutil.rmtree(folder)
    folder.write_text("a file")
    keep_base(base)
    assert recall_base(base.table) is None
