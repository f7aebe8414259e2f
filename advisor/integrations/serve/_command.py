"""``advisor serve``: show a folder of runs as web pages on this machine."""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from advisor.cli import AsJson, note, print_json
from advisor.core import UsageError, install_extra

CLOSING_S = 2
"""Seconds that open requests have to end."""


def serve(
    runs: Annotated[str, typer.Option(metavar="DIR", help="Folder of the runs.")] = "runs",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of this machine. 0: a free one.")] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the runs of a folder as web pages on this machine, until you press Ctrl-C.

    The pages have the list of runs with their picks, the progress of running searches, the reports, comparisons,
    re-evaluations and bundles. On a finished run, drop a photograph to see what its files answer. Only this machine
    can ask, and only with the address that is printed: it contains a token.

    Example: advisor serve --runs runs --open
    """

    def tell(address: str) -> None:
        if as_json:
            print_json({"schema_version": 1, "address": address})
        else:
            typer.echo(address)
        note("press Ctrl-C to end")
        if show:
            typer.launch(address)

    start(Path(runs), port, tell)


def start(runs: Path, port: int, tell: Callable[[str], None]) -> None:
    """Serve a folder of runs until the process is interrupted; ``tell`` gets the address when it accepts requests.

    Raises UsageError: the packages are not installed, there is no such folder, or the port cannot be used.
    """
    try:
        import uvicorn

        from advisor.integrations.serve._access import HOST, Access, ImpatientConnection
        from advisor.integrations.serve._pages import Pages
    except ImportError:
        raise UsageError("the packages of the web server are not installed", install_extra("serve")) from None
    from advisor.reporting import Runs

    shown = Runs(runs)
    with bind_socket(HOST, port) as opened:
        access = Access(opened.getsockname()[1])
        config = uvicorn.Config(
            Pages(shown, access).app(),
            http=ImpatientConnection,
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


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket at a port, or at a free one for 0."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except OSError as error:
        opened.close()
        raise UsageError(
            f"--port: {port} cannot be used ({error.strerror})", "choose another, or leave --port out for a free one"
        ) from None
    return opened
