"""``advisor plan``: what a search would do, and what it would take."""

from __future__ import annotations

from typing import Any

from advisor.cli.options import AsJson
from advisor.cli.output import print_json
from advisor.cli.search_options import PLAN_OPTIONS, takes


@takes(PLAN_OPTIONS)
def plan(*, as_json: AsJson = False, **options: Any) -> None:
    """Show what a search with the same options would do, and its price. Nothing is spent, no connection is opened.

    The table has a row for each candidate: its estimated latency, the probability that it meets the budget, its size,
    published accuracy and price in seconds. It also says which candidates are filtered and why, and which weights are
    on this machine.

    Example: advisor plan --budget 50ms --data photos/ --time-limit 10min
    """
    from advisor import api

    view = api.plan(**options)
    if as_json:
        print_json(view.to_json())
        return
    from advisor.reporting.plan_table import print_plan

    print_plan(view)
