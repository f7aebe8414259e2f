"""The command ``advisor serve``: open a port and serve the pages until Ctrl-C.

The options and the printed document are documented: they stay. Modules of the pages are imported
late, because their packages are an extra.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from advisor.cli import AsJson, note, print_json
from advisor.core import UsageError, install_extra


def serve(
    runs: Annotated[str, typer.Option(metavar="DIR", help="Folder of the runs.")] = "runs",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of this machine. 0: a free one.")
    ] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the runs of a folder as web pages on this machine, until you press Ctrl-C.

    The pages have the list of runs with their picks, the progress of running searches, the
    reports, comparisons, re-evaluations and bundles. On a finished run, drop a photograph to see
    what its files answer. Only this machine can ask, and only with the address that is printed: it
    contains a token.

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
    """Serve a folder of runs until the process is interrupted.

    ``tell`` gets the address when it accepts requests.

    Raises:
        UsageError: the packages are not installed, there is no such folder, or the port cannot
            be used.
    """
    try:
        from advisor.integrations.serve._access import Access
        from advisor.integrations.serve._pages import Pages
    except ImportError:
        raise UsageError(
            "the packages of the web server are not installed", install_extra("serve")
        ) from None
    from advisor.reporting import Runs

    shown = Runs(runs)
    with Access.open_socket(Access.host, port) as listening:
        access = Access(listening.getsockname()[1])
        tell(access.address)
        access.run(Pages(shown, access).app(), listening)
