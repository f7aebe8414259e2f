"""``advisor mcp``: let an assistant ask, by the Model Context Protocol over standard input and output."""

import os
import signal
import threading
from typing import Annotated, Never

import typer

from advisor.cli.options import IntegrationCommand
from advisor.core.errors import ExitCode, UsageError, install_extra
from advisor.core.units import seconds

ENDING_S = 1.0
"""Seconds after Ctrl-C in which running commands are told to end. They save their state on their own."""


def mcp(
    folder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="Folder that the assistant may read and write; repeat for more. Runs go into runs/ of the first. "
            "Default: the current folder.",
        ),
    ] = None,
    most_time: Annotated[
        str, typer.Option(metavar="TIME", help="Longest time limit of a search that the assistant may ask for.")
    ] = "30min",
) -> None:
    """Serve an assistant by the Model Context Protocol on standard input and output.

    It has the tools plan, search, report, compare, export, benchmark, devices and catalog. The answers are those of the
    commands with --json. An assistant may name only paths in the folders that are given here.

    Example: advisor mcp --folder ~/models
    """
    try:
        from advisor.integrations.mcp.tools import AssistantFolders, Tools, server
    except ImportError:
        raise UsageError("the package of the Model Context Protocol is not installed", install_extra("mcp")) from None

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    server(Tools(AssistantFolders.of(folder or ["."]), seconds(most_time, "--most-time"))).run("stdio")


def _end(_number: int, _frame: object) -> Never:
    """Interrupt the tools, then leave without the thread that waits for standard input: nothing can interrupt it."""
    threading.Timer(ENDING_S, os._exit, (ExitCode.INTERRUPTED,)).start()
    raise KeyboardInterrupt


COMMAND = IntegrationCommand(mcp, "Serve an assistant by the Model Context Protocol.")
