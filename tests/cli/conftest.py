"""Runs the command in a process of its own, in an empty folder, with an empty cache of its own."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

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

    @property
    def document(self) -> Any:
        """The JSON document that it printed."""
        return json.loads(self.out)


Advisor = Callable[..., Said]


def ended(said: Said, code: int = 0) -> Said:
    """Assert that a command ended with an exit code and without a traceback, and return what it left."""
    assert said.code == code, said.err
    assert "Traceback" not in said.err
    return said


def refused(said: Said, *words: str) -> None:
    """Assert that a command ended as a wrong use, with a hint and these words."""
    for word in ("hint:", *words):
        assert word in ended(said, 2).err


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
