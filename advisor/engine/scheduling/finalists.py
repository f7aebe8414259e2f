"""The hold-out, looked at once: the artefacts that may be shipped, judged on pictures that nothing was chosen by."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from advisor.core.decision import Decision
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.engine.targets.multi_device import MultiDeviceEvaluator
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


async def judge(
    chosen: Sequence[Evaluation], evaluator: MultiDeviceEvaluator, run: RunFolder, in_time: Callable[[], bool]
) -> None:
    """Measure the finalists on the hold-out, then, in time, on it as phones take pictures; each is kept at once."""
    plain = await _each([e for e in chosen if e.holdout_accuracy is None], evaluator.hold_out, run)
    judged = {e.configuration: e for e in (*chosen, *plain)}
    if in_time():
        tried = captured(tuple(judged.values()))
        await _each([e for e in tried if e.capture.holdout is None], evaluator.capture, run)


def captured(chosen: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return the finalists that phone pictures are tried on: the first two files, and the first of each network.

    A network's forms differ little in this, and fourteen answers a picture for every form would take longer than all
    the rest of a search.

    Args:
        chosen: finalists, pick and runner-up first.
    """
    files = list(dict.fromkeys(e.artefact_sha256 for e in chosen))[:2]
    networks = {(e.configuration.card, e.configuration.training): e.artefact_sha256 for e in reversed(chosen)}
    return tuple(e for e in chosen if e.artefact_sha256 in {*files, *networks.values()})


async def _each(
    left: Sequence[Evaluation], measure: Callable[[Evaluation], Awaitable[Evaluation]], run: RunFolder
) -> list[Evaluation]:
    async def one(evaluation: Evaluation) -> Evaluation:
        measured = await measure(evaluation)
        run.append(measured)
        return measured

    found = await asyncio.gather(*(one(e) for e in left), return_exceptions=True)
    for problem in found:
        # A file that cannot be judged stays without the figure, which the report says; the search has its answer.
        if isinstance(problem, BaseException) and not isinstance(problem, AdvisorError | OSError):
            raise problem
    return [each for each in found if isinstance(each, Evaluation)]
