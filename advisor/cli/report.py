"""``advisor report``: decide again for free, and write the report."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.limits import (
    Budget,
    Confidence,
    Licence,
    MaxDrop,
    MemoryBudget,
    MinAccuracy,
    MustRunOn,
    Prefer,
    ProfileFolders,
    RunArgument,
    SizeBudget,
    warn_of_problems,
)
from advisor.cli.options import split
from advisor.core.exits import ExitCode


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", short_help="Decide again with other limits, and write the report.")(report)


def report(
    run: RunArgument,
    prefer: Prefer = None,
    budget: Budget = None,
    size_budget: SizeBudget = None,
    memory_budget: MemoryBudget = None,
    max_drop: MaxDrop = None,
    min_accuracy: MinAccuracy = None,
    licence: Licence = None,
    must_run_on: MustRunOn = None,
    profiles: ProfileFolders = None,
    confidence: Confidence = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for the report files. Default: the run folder, if no limit changed."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace report files that exist in --to.")] = False,
) -> None:
    """Decide again from the measurements of a run, with other limits or another preference, and write the report.

    Nothing is measured or trained. Each limit that you leave out keeps the value of the run. Without any option, the
    report files of the run are written again. With other limits, the answer is printed, and written to --to if given.

    Example: advisor report runs/latest --prefer size --budget 30ms --to report-30ms
    """
    from advisor import api
    from advisor.reporting.table import print_answer

    warn_of_problems(run, artefacts=True)
    found = api.report(
        run,
        prefer=prefer,
        to=to,
        force=force,
        budget=budget,
        size_budget=size_budget,
        memory_budget=memory_budget,
        max_drop=max_drop,
        min_accuracy=min_accuracy,
        licence=licence,
        must_run_on=split(must_run_on),
        profiles=profiles,
        confidence=confidence,
    )
    print_answer(found.view)
    for path in found.files:
        typer.echo(f"wrote {path}", err=True)
    if not found.files and to is None:
        typer.echo("the report of the run is unchanged; add --to DIR to write this one", err=True)
    if not found.view.decision.feasible:
        raise typer.Exit(ExitCode.UNSATISFIED)
