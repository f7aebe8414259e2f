"""The command ``advisor mcp``: start the server, and repair what it would not answer.

The server of the package mcp drops lines that it cannot read, and their sender would wait for
ever. So a thread reads standard input first (:func:`_repair_input`), and makes each such line a
request that fails.
"""

import contextlib
import os
import re
import signal
import threading
from typing import Annotated, Never

import typer

from advisor.core import ExitCode, UsageError, install_extra, units

_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ID = re.compile(r'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,200}")')
_ESCAPE = re.compile(_PAIR + rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL)

ENDING_S = 1.0
"""Seconds after Ctrl-C in which running commands are told to end.
They save their state on their own.
"""


def mcp(
    folder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Folder that the assistant may read and write; repeat for more. Runs go into runs/"
                " of the first. "
                "Default: the current folder."
            ),
        ),
    ] = None,
    most_time: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Longest time limit of a search that the assistant may ask for."
        ),
    ] = "30min",
) -> None:
    """Serve an assistant by the Model Context Protocol on standard input and output.

    It has the tools plan, search, report, compare, export, benchmark, devices and catalog. The
    answers are those of the commands with --json. An assistant may name only paths in the folders
    that are given here.

    Example: advisor mcp --folder ~/models
    """
    try:
        from advisor.integrations.mcp._tools import AssistantFolders, Tools, make_server
    except ImportError:
        raise UsageError(
            "the package of the Model Context Protocol is not installed", install_extra("mcp")
        ) from None

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    _repair_input()
    folders = AssistantFolders.of(folder or ["."])
    tools = Tools(folders, units.parse_seconds(most_time, "--most-time"))
    make_server(tools).run("stdio")


def without_lone_surrogates(line: bytes) -> bytes:
    """Return a line of JSON in which halves of characters are replacement characters.

    No text can have such a half, and the reader would drop the line.
    """

    def repair(match: re.Match[bytes]) -> bytes:
        return b"\\ufffd" if match["half"] else match[0]

    return _ESCAPE.sub(repair, line)


def answerable(line: bytes) -> bytes:
    """Return a line that the reader of the protocol answers.

    The reader drops what is no message, such as JSON of 300 levels, and its sender would wait for
    ever. So a request that it cannot read becomes one that fails.
    """
    from mcp.types import jsonrpc_message_adapter

    text = without_lone_surrogates(line).decode("utf-8", "replace")
    try:
        jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        number = _ID.search(text)
        if number is not None:
            text = f'{{"jsonrpc": "2.0", "id": {number[1]}, "method": "unreadable"}}\n'
    return text.encode()


def _repair_input() -> None:
    """Put a pipe in the place of standard input, into which a thread writes answerable lines."""
    source = os.fdopen(os.dup(0), "rb")
    reading_end, writing_end = os.pipe()
    os.dup2(reading_end, 0)
    os.close(reading_end)

    def copy_lines() -> None:
        pipe = os.fdopen(writing_end, "wb", buffering=0)
        with contextlib.suppress(OSError), source, pipe as target:
            for line in source:
                target.write(answerable(line))

    threading.Thread(target=copy_lines, daemon=True).start()


def _end(_number: int, _frame: object) -> Never:
    """Interrupt the tools, then leave without the thread that waits for standard input.

    Nothing can interrupt that thread.
    """
    threading.Timer(ENDING_S, os._exit, (ExitCode.INTERRUPTED,)).start()
    raise KeyboardInterrupt
