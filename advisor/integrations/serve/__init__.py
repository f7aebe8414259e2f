"""``advisor serve``: show a folder of runs as web pages on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from advisor.cli.options import AsJson, IntegrationCommand
from advisor.cli.output import note, print_json
from advisor.core.errors import UsageError, install_extra


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
    try:
        from advisor.integrations.serve.server import serve as start
    except ImportError:
        raise UsageError("the packages of the web server are not installed", install_extra("serve")) from None

    def tell(address: str) -> None:
        if as_json:
            print_json({"schema_version": 1, "address": address})
        else:
            typer.echo(address)
        note("press Ctrl-C to end")
        if show:
            typer.launch(address)

    start(Path(runs), port, tell)


COMMAND = IntegrationCommand(serve, "Show runs as local web pages.")
