"""``advisor doctor``: is this machine ready?"""

from __future__ import annotations

from dataclasses import asdict

import typer

from advisor.cli.options import AsJson, Filter, Sort
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.errors import ExitCode


def doctor(sort: Sort = "", only: Filter = None, as_json: AsJson = False) -> None:
    """Check this machine for what a search needs: packages, memory, disk, weights, load.

    Exit code 2: a search cannot run because something is missing. 0: it can; there may be warnings.
    """
    from advisor import api
    from advisor.reporting.selection import rows_of

    rows = rows_of({"name": "name", "state": "state", "found": "found", "hint": "hint"}).select(sort, only)
    with progress("checking this machine"):
        checks = api.doctor()
    shown = rows.of(checks)
    if as_json:
        print_json({"schema_version": 1, "checks": [asdict(check) for check in shown]})
    else:
        for check in shown:
            mark = {api.State.OK: "ok     ", api.State.WARNING: "warning", api.State.FAILED: "FAILED "}[check.state]
            typer.echo(f"{mark}  {check.name:18} {check.found}")
            if check.hint:
                typer.echo(f"{'':29}{check.hint}")
    if any(check.state is api.State.FAILED for check in checks):
        raise typer.Exit(ExitCode.USAGE)
