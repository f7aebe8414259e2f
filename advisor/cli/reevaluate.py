"""``advisor reevaluate``: answer earlier runs again after a change."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.compare import check_format
from advisor.cli.options import Format
from advisor.cli.output import progress, warn_of_problems
from advisor.core.errors import ExitCode, UsageError


def reevaluate(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run folder, such as runs/latest.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Answer every search in --runs instead of one run.")] = False,
    runs: Annotated[str, typer.Option(metavar="DIR", help="Folder of the runs.")] = "runs",
    device: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Also answer for this device (a profile's name, or name:target); repeat for more."
        ),
    ] = None,
    profiles: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="Folder of your own device profiles; without --device, all its devices count. Repeat for more.",
        ),
    ] = None,
    since_last: Annotated[
        bool, typer.Option("--since-last", help="Compare with the latest answer to each run: shows only what is new.")
    ] = False,
    form: Format = "text",
) -> None:
    """Answer earlier runs again after a change of devices, runtime, this machine or the catalogue.

    Only missing figures are measured or predicted, and nothing is trained. Each new answer is a new run that names its
    parent. Exit code 4: a recommendation changed or got worse. 0: none did.

    Example: advisor reevaluate --all --device raspberry-pi-4
    """
    from advisor import api
    from advisor.reporting.comparisons import render_reevaluations

    check_format(form)
    if every == (run is not None):
        problem = "a run and --all exclude each other" if every else "no run is given"
        raise UsageError(problem, "name one run, or --all: advisor reevaluate runs/latest, or advisor reevaluate --all")
    if run is not None:
        warn_of_problems(run)
    with progress() as tell:
        found = api.reevaluate(
            run, runs=runs, device=device or (), profiles=profiles or (), since_last=since_last, tell=tell
        )
    typer.echo(render_reevaluations(found, form), nl=False)
    if any(result.changed for result in found):
        raise typer.Exit(ExitCode.CHANGED)
