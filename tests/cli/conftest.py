"""Runs the command in an empty folder, with an empty cache of its own: in this process, or in one of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor import api
from tests.run_folders import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs").path


@pytest.fixture
def done_once(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make functions of the API return their first result again: for one result at several widths of a terminal."""

    def keep(*names: str) -> None:
        for name in names:
            monkeypatch.setattr(f"advisor.api.{name}", _first_of(getattr(api, name)))

    return keep


def _first_of(function: Callable[..., Any]) -> Callable[..., Any]:
    results: list[Any] = []

    def call(*arguments: Any, **options: Any) -> Any:
        results.extend([] if results else [function(*arguments, **options)])
        return results[0]

    return call


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of ten small pictures each, in colours that differ."""
    rng = np.random.default_rng(0)
    for place, name in enumerate(("red things", "blue things")):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for count in range(10):
            pixels = rng.integers(0, 90, (40, 40, 3), dtype=np.uint8)
            pixels[..., 2 * place] += 150
            Image.fromarray(pixels).save(folder / f"{count}.jpg")
    return tmp_path / "photos"
