"""``advisor plan``: what a search would do, and what it would take."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.output import print_json
from advisor.cli.question import Question, asks


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", short_help="Show what a search would do, and its price.")(plan)


@asks
def plan(
    question: Question,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Show what a search with the same options would do, and its price. Nothing is spent, no connection is opened.

    Every candidate with the latency to expect, its chance to meet the budget, size, published accuracy and price in
    seconds; what is filtered and why; and which weights are here already.

    Example: advisor plan --budget 50ms --data photos/ --time-limit 10min
    """
    from advisor import api

    view = api.plan(**question)
    if as_json:
        print_json(view.to_json())
        return
    from advisor.reporting.plan_table import print_plan

    print_plan(view)
