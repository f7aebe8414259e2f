"""The hold-out, looked at once: the artefacts that may be shipped, judged on pictures that nothing was chosen by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from advisor.core.decision import Decision
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.search.sited import SitedEvaluator
from advisor.store import RunFolder


def finalists(decisions: Sequence[Decision], evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return what an answer may name: pick, runner-up, ties, then the front, wherever they run.

    One file has one accuracy, so an artefact is judged once, whatever it runs on.

    Args:
        decisions: the answer, and those for single devices where there are several.
        evaluations: all of the run's.
    """
    named = [e for decision in decisions for e in (decision.pick, decision.runner_up, *decision.ties) if e is not None]
    front = [e for decision in decisions for e in decision.front]
    places = {e.artefact_sha256: place for place, e in enumerate(_first([*named, *front]))}
    chosen = [e for e in evaluations if e.status is Status.OK and e.artefact_sha256 in places]
    return tuple(sorted(chosen, key=lambda e: places[e.artefact_sha256]))


def _first(evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """Return one evaluation of each artefact."""
    return tuple({e.artefact_sha256: e for e in evaluations if e.artefact_sha256}.values())


async def judge(chosen: Sequence[Evaluation], evaluator: SitedEvaluator, run: RunFolder) -> None:
    """Measure the finalists that were not judged yet on the hold-out, and add what came of it to the run."""
    left = [e for e in chosen if e.holdout_accuracy is None]

    async def one(evaluation: Evaluation) -> None:
        run.append(await evaluator.hold_out(evaluation))

    for problem in await asyncio.gather(*(one(e) for e in left), return_exceptions=True):
        # A file that cannot be judged stays without the figure, which the report says; the search has its answer.
        if isinstance(problem, BaseException) and not isinstance(problem, AdvisorError | OSError):
            raise problem
