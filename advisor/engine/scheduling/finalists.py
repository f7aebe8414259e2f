"""Scores the finalists on the hold-out: images that nothing was selected by. They are used once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from advisor.core.decision import Decision
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.engine.pipeline.evaluation.evaluator import Evaluator
from advisor.store import RunFolder


def finalists(decisions: Sequence[Decision], evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return what an answer may name: pick, runner-up, ties, then the front, on every device.

    A file has the same accuracy on every device, so it is scored once.

    Args:
        decisions: the answer, and the answers for single devices if there are several.
        evaluations: all evaluations of the run.
    """
    named = [e for decision in decisions for e in (decision.pick, decision.runner_up, *decision.ties) if e is not None]
    front = [e for decision in decisions for e in decision.front]
    files = dict.fromkeys(e.artefact_sha256 for e in (*named, *front) if e.artefact_sha256)
    positions = {file: position for position, file in enumerate(files)}
    chosen = [e for e in evaluations if e.status is Status.OK and e.artefact_sha256 in positions]
    return tuple(sorted(chosen, key=lambda e: positions[e.artefact_sha256]))


async def score(chosen: Sequence[Evaluation], scorer: Evaluator, run: RunFolder, in_time: Callable[[], bool]) -> None:
    """Score the finalists, pick and runner-up first, on the hold-out and, if time is left, under capture conditions.

    Each result is kept at once.
    """
    plain = await _each([e for e in chosen if e.holdout_accuracy is None], scorer.hold_out, run)
    scored = {e.configuration: e for e in (*chosen, *plain)}
    if in_time():
        tried = captured(tuple(scored.values()))
        await _each([e for e in tried if e.capture.holdout is None], scorer.capture, run)


def captured(chosen: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return the finalists that are scored under capture conditions: the first two files, and one of each network.

    The forms of a network differ little in this. Each needs fourteen answers for each image, so trying every form would
    take longer than the rest of the search.
    """
    files = list(dict.fromkeys(e.artefact_sha256 for e in chosen))[:2]
    networks = {(e.configuration.card, e.configuration.training): e.artefact_sha256 for e in reversed(chosen)}
    return tuple(e for e in chosen if e.artefact_sha256 in {*files, *networks.values()})


async def _each(
    chosen: Sequence[Evaluation], measure: Callable[[Evaluation], Awaitable[Evaluation]], run: RunFolder
) -> list[Evaluation]:
    """Return what could be measured. A file that cannot be scored stays without the figure, and the report says so."""

    async def one(evaluation: Evaluation) -> Evaluation:
        measured = await measure(evaluation)
        run.append(measured)
        return measured

    found = await asyncio.gather(*(one(e) for e in chosen), return_exceptions=True)
    for problem in found:
        if isinstance(problem, BaseException) and not isinstance(problem, AdvisorError | OSError):
            raise problem
    return [each for each in found if isinstance(each, Evaluation)]
