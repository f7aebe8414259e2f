"""Start the server on this machine's own address."""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from advisor.core.errors import UsageError
from advisor.integrations.serve.access import HOST, Access
from advisor.integrations.serve.pages import Pages
from advisor.integrations.serve.runs import Runs

CLOSING_S = 2
"""Seconds that open requests have to end."""


def serve(runs: Path, port: int, tell: Callable[[str], None]) -> None:
    """Serve a folder of runs until the process is interrupted.

    Raises UsageError: no such folder, or the port cannot be used.

    Args:
        runs: the folder.
        port: the port; 0 for one that is free.
        tell: called with the address when the server accepts requests.
    """
    shown = Runs(runs)
    with _bound(port) as opened:
        access = Access(opened.getsockname()[1])
        config = uvicorn.Config(
            Pages(shown, access).app(),
            log_level="warning",
            access_log=False,
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=CLOSING_S,
        )
        opened.listen()
        tell(f"http://{HOST}:{access.port}{access.root}/")
        with contextlib.suppress(KeyboardInterrupt):  # this is how it ends
            uvicorn.Server(config).run(sockets=[opened])


def _bound(port: int) -> socket.socket:
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((HOST, port))
    except OSError as error:
        opened.close()
        raise UsageError(
            f"--port: {port} cannot be used ({error.strerror})", "choose another, or leave --port out for a free one"
        ) from None
    return opened
