"""``advisor compare``: what changed between two runs."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.limits import warn_of_flaws
from advisor.core.exits import ExitCode

Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="text, markdown or json.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", short_help="Show what changed between two runs.")(compare)


def compare(
    before: Annotated[str, typer.Argument(metavar="RUN", help="The earlier run.")],
    after: Annotated[str, typer.Argument(metavar="RUN", help="The later run.")],
    form: Format = "text",
) -> None:
    """Show what changed between two runs: question, data, catalogue, devices, versions, figures, recommendation.

    Ends with 4 where the recommendation changed or got worse beyond the noise of its figures, with 0 where not.

    Example: advisor compare runs/20260131-120000-photos runs/latest --format markdown
    """
    from advisor import api
    from advisor.reporting.changes import render

    check_format(form)
    for run in (before, after):
        warn_of_flaws(run)
    comparison = api.compare(before, after)
    typer.echo(render(comparison, form), nl=False)
    if comparison.recommends_otherwise:
        raise typer.Exit(ExitCode.CHANGED)


def check_format(form: str) -> None:
    """Refuse an output format that there is not.

    Raises:
        UsageError: an unknown name.
    """
    from advisor.core.errors import UsageError, nearest
    from advisor.reporting.changes import FORMATS

    if form not in FORMATS:
        raise UsageError(f"--format: unknown '{form}'{nearest(form, FORMATS)}", f"one of: {', '.join(FORMATS)}")
