"""The evaluation of a run to ship."""

from __future__ import annotations

from advisor.core.decision import Decision
from advisor.core.errors import UsageError, nearest
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import latency_of
from advisor.engine.history.loaded_run import LoadedRun

_SEE = "advisor export RUN --list shows the candidates"


def choices(decision: Decision) -> tuple[Evaluation, ...]:
    """Return the candidates that ``--pick N`` counts: pick, runner-up, ties, then the front; one entry an artefact."""
    ordered = [decision.pick, decision.runner_up, *decision.ties, *decision.front]
    found: dict[str, Evaluation] = {}
    for evaluation in ordered:
        if evaluation is None or not evaluation.artefact:
            continue
        known = found.setdefault(evaluation.artefact, evaluation)
        if known is not decision.pick and latency_of(evaluation) < latency_of(known):
            found[evaluation.artefact] = evaluation
    return tuple(found.values())


def choose(run: LoadedRun, pick: str | None) -> Evaluation:
    """Return the evaluation to ship.

    Args:
        run: the run.
        pick: a number of :func:`choices` from 1, the key of an evaluation, or None for the pick.

    Raises:
        UsageError: there is no such candidate, or the run has none.
    """
    offered = choices(run.decision)
    if not offered:
        raise UsageError(
            f"'{run.folder.path}' has no candidate to ship: {run.decision.reason}",
            f"resume it: advisor search --resume {run.folder.path}",
        )
    if pick is None:
        return offered[0]
    if pick.isdecimal():
        if not 1 <= int(pick) <= len(offered):
            raise UsageError(f"--pick: there is no candidate {int(pick)}; the numbers are 1 to {len(offered)}", _SEE)
        return offered[int(pick) - 1]
    by_key = {evaluation.configuration.key: evaluation for evaluation in run.evaluations}
    found = by_key.get(pick)
    if found is None:
        raise UsageError(f"--pick: the run has no candidate '{pick}'{nearest(pick, by_key)}", _SEE)
    if found.status is not Status.OK:
        raise UsageError(f"--pick: '{pick}' has no artefact; its status is {found.status} ({found.reason})", _SEE)
    return found
