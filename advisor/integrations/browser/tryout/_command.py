"""The command ``advisor try``: check its options, open a port, and serve the page of a run.

The options are documented and used by ``advisor serve`` (``_phone.py`` there): names and the
printed document stay. Modules of the page are imported late, because a busy machine reads
them for seconds.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import AsJson, note, print_json
from advisor.core import UsageError, require_extra

if TYPE_CHECKING:
    from advisor.cli import LocalServer

LIMIT_MIN = 30
"""Minutes after which the command ends: nobody has to remember an open server."""

MOST_REQUESTS = 5000
"""Requests that one start answers; a page with all timings takes about 30."""

WARNING = (
    "the browser of the phone warns of the certificate, which is made for this start: choose"
    " Advanced, then Proceed"
)


def try_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, such as runs/latest.")],
    phone: Annotated[
        bool, typer.Option("--phone", help="Let a phone of the local network open the page.")
    ] = False,
    address: Annotated[
        str,
        typer.Option(
            metavar="IP", help="Address of this machine for --phone. Default: that of its network."
        ),
    ] = "",
    keep: Annotated[
        str,
        typer.Option(metavar="DIR", help="Folder for photographs that you keep with their class."),
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of this machine. 0: a free one.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address and open no browser.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Try the files of a run in a browser:
    the pick beside its float32 and int8 form, on your photographs.

    The page has the camera, your photographs, and images of the hold-out that the pick gets wrong.
    It answers in the browser, as the app would: images stay on the device. It also times the files
    there, which makes a new run.

    With --phone, it prints a QR code that opens the page on a phone of the same network, over an
    encrypted connection. With --keep, a photograph can be kept with the class that you choose; the
    command that learns from these images is printed at the end. It ends with Ctrl-C, or after 30
    minutes.

    Example: advisor try runs/latest --phone
    """
    _require_options(phone, address)
    opens_browser = not (phone or no_browser or as_json)
    _serve_page(run, phone, address, keep, port, opens_browser, as_json)


def _serve_page(
    run: str,
    phone: bool,
    address: str,
    keep: str,
    port: int,
    opens_browser: bool,
    as_json: bool,
) -> None:
    """Serve the page of a run until Ctrl-C or the time limit; see :func:`try_run`."""
    from advisor.cli import LocalServer
    from advisor.integrations.browser.tryout._app import PageRoutes
    from advisor.integrations.browser.tryout._phone import find_address, make_certificate
    from advisor.integrations.browser.tryout._photographs import Keeper
    from advisor.integrations.browser.tryout._timings import Recorder
    from advisor.integrations.browser.tryout._trial import RunPage

    certificate: Path | None = None
    host = LocalServer.host
    with ExitStack() as stack:
        if phone:
            host = find_address(address)
            certificate = stack.enter_context(make_certificate(host))
        trial = RunPage.of(run, bool(keep))
        keeper = Keeper.of(Path(keep), trial, note) if keep else None
        listening = stack.enter_context(LocalServer.open_socket(host, port))
        scheme = "https" if phone else "http"
        server = LocalServer(
            listening.getsockname()[1],
            command="try",
            host=host,
            scheme=scheme,
            most_requests=MOST_REQUESTS,
        )
        _tell_address(server, phone, as_json)
        if opens_browser:
            typer.launch(server.address)
        pages = PageRoutes(trial, server, Recorder(trial, note), keeper)
        server.run(pages.app(), listening, certificate, limit_s=60 * LIMIT_MIN)
        if keeper is not None and keeper.command:
            note("learn from these photographs, too:")
            typer.echo(keeper.command)


def _require_options(phone: bool, address: str) -> None:
    """Refuse what cannot be served, before the modules of the page are read.

    Raises:
        UsageError: an option that needs another one, or a missing package.
    """
    if address and not phone:
        raise UsageError("--address is for --phone", "add --phone, or leave --address out")
    for package in ("starlette", "uvicorn"):
        require_extra(
            package, "serve", f"the page needs the package {package}, which is not installed"
        )
    if phone:
        for package in ("cryptography", "segno"):
            require_extra(
                package, "phone", f"--phone needs the package {package}, which is not installed"
            )


def _tell_address(server: LocalServer, phone: bool, as_json: bool) -> None:
    """Print where the page is, for a phone with a QR code."""
    from advisor.integrations.browser.tryout._phone import draw_code, picture_code

    if as_json:
        code = {"qr_code": picture_code(server.address)} if phone else {}
        print_json({"schema_version": 1, "address": server.address, "minutes": LIMIT_MIN, **code})
        return
    typer.echo(server.address)
    if phone:
        typer.echo(draw_code(server.address))
        note(WARNING)
    note(f"press Ctrl-C to end; it ends after {LIMIT_MIN} minutes")
