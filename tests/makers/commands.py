"""Runs a command with an empty cache of its own: in this process, or in a fork."""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer

from advisor.cli import _main as command, _output as output, main
from tests.makers import forks

IN_FORKS = ("search", "serve", "mcp")
"""Commands that get a process of their own: they work in threads, or answer until they are stopped."""


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


def parse(words: Sequence[str]) -> None:
    """Parse a command line with the parser of the command; it raises an error if the command does not take it."""
    assert words[0] == "advisor"
    rest, parser = list(words[1:]), forks.build_once(command.app)
    while hasattr(parser, "commands") and (rest or not parser.invoke_without_command):
        parser = parser.commands[rest.pop(0)]
    parser.make_context(parser.name, rest)


def ended(said: Said, code: int = 0) -> Said:
    """Assert that a command ended with an exit code and without a traceback, and return what it left."""
    assert said.code == code, said.err
    assert "Traceback" not in said.err
    return said


def refused(said: Said, *words: str) -> None:
    """Assert that a command ended as a wrong use, with a hint and these words."""
    for word in ("hint:", *words):
        assert word in ended(said, 2).err


def _environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without a terminal's width and colours, with a cache in a folder and settings."""
    plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "FORCE_COLOR")}
    return {**plain, "ADVISOR_CACHE_DIR": str(folder / "cache"), "NO_COLOR": "1", **settings}


@pytest.fixture(scope="session")
def fork_server(starts_processes: None) -> ForkServerContext:
    """The process that every command is a fork of."""
    return forks.context()


@pytest.fixture
def quick_advisor(starts_processes: None, tmp_path: Path) -> Advisor:
    """Run ``advisor ARGUMENTS`` as the fixture ``advisor`` does, a search too: it must be refused before its work."""
    (tmp_path / "cache").mkdir(exist_ok=True)

    def run(*arguments: str, **environment: str) -> Said:
        return called(arguments, tmp_path, _environment(tmp_path, environment))

    return run


@pytest.fixture
def advisor(fork_server: ForkServerContext, tmp_path: Path) -> Advisor:
    """Run ``advisor ARGUMENTS`` in ``tmp_path`` with a cache of its own."""
    (tmp_path / "cache").mkdir(exist_ok=True)

    def run(*arguments: str, timeout: float = 300, **environment: str) -> Said:
        variables = _environment(tmp_path, environment)
        if arguments[:1] and arguments[0] in IN_FORKS:
            return Said(*forks.run(fork_server, arguments, tmp_path, variables, timeout))
        return called(arguments, tmp_path, variables)

    return run


def called(arguments: tuple[str, ...], folder: Path, variables: Mapping[str, str]) -> Said:
    """Call the command in this process from the start of its time limit, without lines about slow steps."""
    handler, encoding = signal.getsignal(signal.SIGTERM), variables.get("PYTHONIOENCODING", "utf-8")
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile("w+", encoding=encoding)) for _ in range(2)]
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            contextlib.chdir(folder),
            patch.object(sys, "argv", ["advisor", *arguments]),
            patch.dict(os.environ, variables, clear=True),
            patch.multiple(output, WAIT_S=1e6, EVERY_S=1e6),
            patch.object(command, "began_with_process", time.monotonic),
            patch.object(typer.main, "get_command", forks.build_once),
            pytest.raises(SystemExit) as end,
        ):
            main()
        signal.signal(signal.SIGTERM, handler)
        for stream in streams:
            stream.seek(0)
        return Said(int(end.value.code or 0), *(stream.read() for stream in streams))
