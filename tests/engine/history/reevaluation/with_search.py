"""Re-evaluation with the search of the product, as the API puts them together."""

from __future__ import annotations

from functools import partial

from advisor.engine.history.reevaluation import reevaluate as module
from advisor.engine.progress import Progress
from advisor.engine.question import Request
from advisor.engine.run import run_search
from advisor.store import RunFolder


def search(request: Request) -> RunFolder:
    return run_search(request, Progress(False)).run


reevaluate = partial(module.reevaluate, search=search)
reevaluate_all = partial(module.reevaluate_all, search=search)
