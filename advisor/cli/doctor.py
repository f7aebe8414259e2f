"""``advisor doctor``: is this machine ready?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from advisor.cli.output import print_json
from advisor.core.exits import ExitCode


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", short_help="Check whether this machine is ready.")(doctor)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check this machine for what a search needs: packages, memory, disk, weights, quiet.

    Exit code 2 where something is missing without which a search cannot run; warnings alone end with 0.
    """
    from advisor.doctor import State, examine

    checks = examine()
    if as_json:
        print_json({"schema_version": 1, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            mark = {State.OK: "ok     ", State.WARNING: "warning", State.FAILED: "FAILED "}[check.state]
            typer.echo(f"{mark}  {check.name:18} {check.found}")
            if check.hint:
                typer.echo(f"{'':29}{check.hint}")
    if any(check.state is State.FAILED for check in checks):
        raise typer.Exit(ExitCode.USAGE)
