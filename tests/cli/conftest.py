"""Runs the command in a process of its own, in an empty folder, with an empty cache of its own."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli import forked


@dataclass(frozen=True)
class Said:
    """What a command left: exit code, output and errors."""

    code: int
    out: str
    err: str


Advisor = Callable[..., Said]


def refused(said: Said, *words: str) -> None:
    """Assert that a command ended as a wrong use, with a hint and these words."""
    assert said.code == 2, said.err
    assert "Traceback" not in said.err
    assert "hint:" in said.err
    for word in words:
        assert word in said.err


def _plain_environment() -> dict[str, str]:
    """This process's environment without what says how wide and colourful a terminal is."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "FORCE_COLOR")}


@pytest.fixture(scope="session")
def fork_server(starts_processes: None) -> ForkServerContext:
    """The process that every command is a fork of."""
    return forked.context()


@pytest.fixture
def advisor(fork_server: ForkServerContext, tmp_path: Path) -> Advisor:
    """Run ``advisor ARGUMENTS`` in ``tmp_path`` with a cache of its own."""
    (tmp_path / "cache").mkdir()

    def run(*arguments: str, timeout: float = 300, **environment: str) -> Said:
        settings = {"ADVISOR_CACHE_DIR": str(tmp_path / "cache"), "NO_COLOR": "1", **environment}
        return Said(*forked.run(fork_server, arguments, tmp_path, {**_plain_environment(), **settings}, timeout))

    return run


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
