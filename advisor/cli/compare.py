"""``advisor compare``: what changed between two runs."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.options import Format
from advisor.cli.output import warn_of_problems
from advisor.core.errors import ExitCode


def compare(
    before: Annotated[str, typer.Argument(metavar="RUN", help="Folder of the earlier run.")],
    after: Annotated[str, typer.Argument(metavar="RUN", help="Folder of the later run.")],
    form: Format = "text",
) -> None:
    """Show what changed between two runs: question, data, catalogue, devices, versions, figures, recommendation.

    Exit code 4: the recommendation changed, or got worse by more than the noise of its figures. 0: it did not.

    Example: advisor compare runs/20260131-120000-photos runs/latest --format markdown
    """
    from advisor import api
    from advisor.reporting.comparisons import render_comparison

    check_format(form)
    for run in (before, after):
        warn_of_problems(run)
    comparison = api.compare(before, after)
    typer.echo(render_comparison(comparison, form), nl=False)
    if comparison.recommends_otherwise:
        raise typer.Exit(ExitCode.CHANGED)


def check_format(form: str) -> None:
    """Refuse an unknown output format.

    Raises:
        UsageError: an unknown name.
    """
    from advisor.core.errors import UsageError, nearest
    from advisor.reporting.comparisons import FORMATS

    if form not in FORMATS:
        raise UsageError(f"--format: unknown '{form}'{nearest(form, FORMATS)}", f"one of: {', '.join(FORMATS)}")
