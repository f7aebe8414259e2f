"""``advisor search``: find the model to ship."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.question import Question, asks
from advisor.core.exits import ExitCode


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search", short_help="Find the model to ship.")(search)


@asks
def search(
    question: Question,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped, such as runs/latest.")
    ] = None,
    extend: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --resume: go on for so much longer, such as 30min.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the libraries' own output.")] = False,
) -> None:
    """Find the model to ship: evaluate candidates under a budget, and recommend one with its reasons.

    With --data, each candidate is retrained on your pictures and every file is scored on a part of them that was kept
    aside. Without, published accuracies are quoted. Latency, memory and size are measured on this machine.

    Example: advisor search --budget 50ms --data photos/
    """
    from advisor import api
    from advisor.reporting.table import print_answer

    run = api.search(resume=resume, extend=extend, verbose=verbose, **question)
    print_answer(run.view)
    if run.interrupted:
        typer.echo(f"interrupted; go on with: advisor search --resume {run.path}", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED)
    if run.stopped:
        typer.echo(f"{run.stopped}; go on with: advisor search --resume {run.path} --extend 30min", err=True)
    if not run.decision.feasible:
        raise typer.Exit(ExitCode.UNSATISFIED)
