"""Run the command in forks of a process that has the imports done; what this imports must stay light."""

import atexit
import multiprocessing
import os
import runpy
import sys
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import typer

from advisor.cli import _output as progress
from advisor.measurement import timing

PRELOADED = Path(__file__).with_name("preloaded.txt").read_text(encoding="utf-8").split()
"""Modules that most commands import, and the one that does what each command would do again."""

build_once = cache(typer.main.get_command)
"""Makes the options of all commands from their annotations, which takes longer than most commands."""


def time_briefly(paths: Any, threads: Any, effort: str, setup: Any, time: Any = timing._run_agent) -> Any:
    """Take the place of ``timing._run_agent``: with this effort, a file takes a third of the runs of a search."""
    return time(paths, threads, "survey" if effort == "search" else effort, setup)


def context() -> ForkServerContext:
    """Return the process to fork from; it starts with its first fork."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOADED)
    return found


def run(
    server: ForkServerContext, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], timeout: float,
    script: Path | None = None,
) -> tuple[int, str, str]:  # fmt: skip
    """Run ``advisor ARGUMENTS``, or a script, and return exit code, output and errors; TimeoutError: it was killed."""
    out, err = (folder / f".{name}-of-the-command" for name in ("out", "err"))
    process: BaseProcess = server.Process(
        target=_command, args=(arguments, script, str(folder), environment, str(out), str(err))
    )
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"advisor {' '.join(arguments)}: {err.read_text()}")
    said = process.exitcode, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
    out.unlink()
    err.unlink()
    return said


def _command(
    arguments: tuple[str, ...], script: Path | None, folder: str, environment: dict[str, str], out: str, err: str
) -> None:
    """Become ``python -m advisor ARGUMENTS`` or ``python SCRIPT``, without what a busy machine gets more of."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    for stream, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream)
        os.close(file)
        (sys.stdout, sys.stderr)[stream - 1].reconfigure(encoding=encoding)
    progress.WAIT_S = progress.EVERY_S = 1e6  # seconds
    timing.measure.__kwdefaults__["retry"] = False
    timing._run_agent = time_briefly
    typer.main.get_command = build_once
    sys.argv = ["advisor", *arguments]
    try:
        if script is None:
            runpy.run_module("advisor", run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
