"""``advisor report``: decide again for free, and write the report."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from advisor.cli.options import RunArgument
from advisor.cli.output import warn_of_problems
from advisor.cli.search_options import LIMITS, takes
from advisor.core.errors import ExitCode


@takes(LIMITS)
def report(
    run: RunArgument,
    *,
    prefer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Preference: balanced, accuracy, latency, size, or weights: accuracy=2,latency=1."
        ),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Probability that a predicted latency meets the budget, such as 90%."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for the report files. Default: the run folder, if no limit changed."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace report files that exist in --to.")] = False,
    **limits: Any,
) -> None:
    """Decide again from the measurements of a run, with other limits or another preference, and write the report.

    Nothing is measured or trained. Each limit that you leave out keeps the value of the run. Without any option, the
    report files of the run are written again. With other limits, the answer is printed, and written to --to if given.

    Example: advisor report runs/latest --prefer size --budget 30ms --to report-30ms
    """
    from advisor import api
    from advisor.reporting.table import print_answer

    warn_of_problems(run, artefacts=True)
    found = api.report(run, prefer=prefer, confidence=confidence, to=to, force=force, **limits)
    print_answer(found.view)
    for path in found.files:
        typer.echo(f"wrote {path}", err=True)
    if not found.files and to is None:
        typer.echo("the report of the run is unchanged; add --to DIR to write this one", err=True)
    if not found.view.decision.feasible:
        raise typer.Exit(ExitCode.UNSATISFIED)
