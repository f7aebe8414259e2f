"""Choose the files that are judged at the end of a search, and score them on the hold-out.

The search loop calls it when nothing more is evaluated (:func:`choose_finalists`,
:func:`score_finalists`), and for the pick so far (:func:`score_holdout`). Every score is appended
to the run as soon as it is there. A file is scored once: its other numbers of threads share the
figures.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from advisor.core import FLOAT, AdvisorError, Decision, Evaluation, Status
from advisor.engine._pipeline.evaluation.scorer import Scorer
from advisor.engine._pipeline.stages.figures import SURVEY
from advisor.engine._space.plan import JUDGED_FILES
from advisor.store import RunFolder

COUNTING_MARGIN = 1.2
"""Factor on the expected seconds of the hold-out when its images are counted."""

TOGETHER_SHARE = 0.5
"""Least share of the images of the hold-out on which pick and runner-up run side by side."""

MORE = 1.5
"""Least factor in images for which a file runs on the hold-out again."""

MOST_FINALISTS = 10
MOST_RUNS = 10_000
"""Files that run on the hold-out at most, and the largest product of files and images, if pick and
runner-up leave room. A hold-out of 2,500 images takes about half a minute a file, so four files
run there.
"""

LEAST_CHANCE = 0.05
"""Least probability to be the pick with which a file runs on the hold-out."""

EXTRAS_S = 30.0
"""Seconds of a time limit that must be left for a class for unknown things,
and for capture conditions.
"""


def choose_finalists(
    decisions: Sequence[Decision],
    evaluations: Sequence[Evaluation],
    images: int,
    with_drop: bool = False,
) -> tuple[Evaluation, ...]:
    """Return what could still change the answer, see :data:`MOST_FINALISTS`:
    the others only cost time.

    These are pick and runner-up on every device and the files that the user ships, then the files
    that resampled images and timings would pick with a probability of at least
    :data:`LEAST_CHANCE`, the most probable first, then the most accurate file of each other
    network on the front. ``with_drop`` adds the float32 file of the pick. A file has the same
    accuracy on every device, so it is scored once on the ``images`` of the hold-out.
    """
    by_key = {e.configuration.key: e for e in evaluations}
    named = []
    for decision in decisions:
        for evaluation in (decision.pick, decision.runner_up):
            if evaluation is not None:
                named.append(evaluation)
    float_of_pick = (*named[0].network, FLOAT) if with_drop and named else ()
    floats = [e for e in evaluations if e.variant == float_of_pick]
    for evaluation in evaluations:
        if evaluation.status is Status.OK and evaluation.card_facts.as_it_is:
            named.append(evaluation)
    likely = []
    front = list[Evaluation]()
    for decision in decisions:
        front += decision.front
        for key, chance in sorted(decision.chances.items(), key=lambda item: -item[1]):
            if chance >= LEAST_CHANCE and key in by_key:
                likely.append(by_key[key])
    front.sort(key=lambda evaluation: evaluation.accuracy_percent, reverse=True)
    networks = {e.network: e for e in reversed([*named, *likely, *front])}
    others = [e for e in front if networks[e.network] is e]
    hashes = dict.fromkeys(
        evaluation.artefact_sha256 for evaluation in (*named, *floats, *likely, *others)
    )
    files = list(filter(None, hashes))
    always = {evaluation.artefact_sha256 for evaluation in (*named, *floats)} - {None, ""}
    most = max(len(always), min(MOST_FINALISTS, MOST_RUNS // max(1, images)))
    positions = {file: position for position, file in enumerate(files[:most])}
    chosen = []
    for evaluation in evaluations:
        if evaluation.status is Status.OK and evaluation.artefact_sha256 in positions:
            chosen.append(evaluation)
    return tuple(sorted(chosen, key=lambda e: positions[e.artefact_sha256]))


def list_named_files(decision: Decision) -> set[str]:
    """Return the files that an answer names."""
    named = (decision.pick, decision.runner_up, *decision.ties, *decision.front)
    files = set()
    for evaluation in named:
        if evaluation is not None and evaluation.artefact_sha256:
            files.add(evaluation.artefact_sha256)
    return files


def list_brief(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations that were timed briefly."""
    brief = []
    for evaluation in evaluations:
        if evaluation.timing is not None and evaluation.timing.effort == SURVEY:
            brief.append(evaluation)
    return brief


def choose_named(
    evaluations: Sequence[Evaluation], decisions: Iterable[Decision]
) -> list[Evaluation]:
    """Return the evaluations whose files an answer names: to time the others for longer would
    take minutes for nothing.
    """
    named = set[str]()
    named.update(*map(list_named_files, decisions))
    return [evaluation for evaluation in evaluations if evaluation.artefact_sha256 in named]


async def score_finalists(
    chosen: Sequence[Evaluation],
    scorer: Scorer,
    run: RunFolder,
    left_s: Callable[[], float],
    everywhere: bool = False,
) -> None:
    """Score the finalists on the hold-out and, if time is left,
    the first of them under capture conditions.

    The first file gets a class for unknown things if time is left, or if the user gave images of
    such things. Within a time limit, pick and runner-up are scored on as many images as there is
    time for, and more files only on all.
    """
    chosen = share_holdout(chosen, run)
    scored = {e.configuration: e for e in chosen}
    for files, most in _in_time(chosen, scorer, left_s):
        now = []
        for evaluation in chosen:
            if evaluation.artefact_sha256 in files and _needs_more(evaluation, most):
                now.append(evaluation)
        scored |= {e.configuration: e for e in await score_holdout(now, scorer, run, most)}
    if scorer.tells_unknown(left_s() > EXTRAS_S):
        first = []
        for e in scored.values():
            if e.artefact_sha256 == chosen[0].artefact_sha256:
                first.append(e)
        answered = await _append_measured(
            [e for e in first if e.unknown is None], scorer.tell_unknown, run
        )
        scored |= {e.configuration: e for e in answered}
    if left_s() > EXTRAS_S and scorer.captures:
        tried = pick_capture_finalists(tuple(scored.values()), everywhere)
        await _append_measured(
            [e for e in tried if e.capture.holdout is None], scorer.capture, run
        )


def _in_time(
    chosen: Sequence[Evaluation], scorer: Scorer, left_s: Callable[[], float]
) -> Iterator[tuple[Sequence[str], int]]:
    """Yield files of the finalists that run side by side,
    and the images of the hold-out that there is time for.

    Pick and runner-up come first:
    together if there is time for most images of both, else one after the other.
    """
    files = list(dict.fromkeys(e.artefact_sha256 for e in chosen))
    whole = scorer.holdout_images

    def count_affordable(some: Sequence[str]) -> int:
        rows = [evaluation for evaluation in chosen if evaluation.artefact_sha256 in some]
        return scorer.affordable(rows, left_s() / COUNTING_MARGIN)

    if left_s() == math.inf:
        yield files, whole
        return
    first = files[:JUDGED_FILES]
    together = count_affordable(first)
    if together >= TOGETHER_SHARE * whole:
        yield first, together
    else:
        for file in first:
            yield [file], count_affordable([file])
    for file in files[JUDGED_FILES:]:
        if count_affordable([file]) < whole:
            return
        yield [file], whole


def _needs_more(evaluation: Evaluation, most: int) -> bool:
    """Return whether a run on ``most`` images tells much more of a file than what is known."""
    part = evaluation.holdout_part
    return evaluation.holdout_accuracy is None or (part is not None and most >= MORE * part.judged)


async def score_holdout(
    rows: Sequence[Evaluation], scorer: Scorer, run: RunFolder, most: int
) -> list[Evaluation]:
    """Return what could be scored on the hold-out; a file that has several rows is judged once."""
    first = dict[str, Evaluation]()
    for evaluation in rows:
        first.setdefault(evaluation.artefact_sha256, evaluation)
    judged = await _append_measured(list(first.values()), lambda e: scorer.hold_out(e, most), run)
    by_file = {e.artefact_sha256: e for e in judged}
    others = []
    for evaluation in rows:
        if (
            evaluation.artefact_sha256 in by_file
            and evaluation is not first[evaluation.artefact_sha256]
        ):
            others.append(evaluation)
    copies = [_with_holdout_of(e, by_file[e.artefact_sha256]) for e in others]
    for copy in copies:
        run.append(copy)
    return [*judged, *copies]


def share_holdout(rows: Sequence[Evaluation], run: RunFolder) -> list[Evaluation]:
    """Return the rows, in which all of one file have the hold-out figures of the row that ran on
    the most images, and append those that changed to the run.

    A file has a row for each number of threads. One that was evaluated later lacks what an earlier
    one has, and would get a figure of its own on fewer images.
    """
    most_judged: dict[str, Evaluation] = {}
    for row in rows:
        known = most_judged.get(row.artefact_sha256)
        if row.holdout_accuracy and (known is None or _count_judged(row) > _count_judged(known)):
            most_judged[row.artefact_sha256] = row
    shared = []
    for row in rows:
        judged = most_judged.get(row.artefact_sha256)
        if judged is not None and _count_judged(row) < _count_judged(judged):
            row = _with_holdout_of(row, judged)
            run.append(row)
        shared.append(row)
    return shared


def _count_judged(evaluation: Evaluation) -> int:
    """Return on how many images of the hold-out a file ran."""
    figure = evaluation.holdout_accuracy
    return (figure.n or 0) if figure else -1


def _with_holdout_of(evaluation: Evaluation, judged: Evaluation) -> Evaluation:
    """Return an evaluation with the figures of its file on the hold-out, which another row has."""
    return replace(
        evaluation,
        holdout_accuracy=judged.holdout_accuracy,
        holdout_answers=judged.holdout_answers,
        holdout_part=judged.holdout_part,
        new_conditions=judged.new_conditions,
    )


def pick_capture_finalists(
    chosen: Sequence[Evaluation], everywhere: bool
) -> tuple[Evaluation, ...]:
    """Return the finalists that are scored under capture conditions: the first two files.

    With ``everywhere`` it is also one file of each network: its forms differ little in this, and
    each needs fourteen answers for each image.
    """
    files = list(dict.fromkeys(e.artefact_sha256 for e in chosen))[:2]
    if not everywhere:
        return tuple(e for e in chosen if e.artefact_sha256 in files)
    networks = {e.network: e.artefact_sha256 for e in reversed(chosen)}
    return tuple(e for e in chosen if e.artefact_sha256 in {*files, *networks.values()})


async def _append_measured(
    chosen: Sequence[Evaluation],
    measure: Callable[[Evaluation], Awaitable[Evaluation]],
    run: RunFolder,
) -> list[Evaluation]:
    """Measure files side by side, append each result to the run and return them.

    A file that cannot be scored stays without the figure, and the report says so.
    """

    async def append_measured(evaluation: Evaluation) -> Evaluation:
        measured = await measure(evaluation)
        run.append(measured)
        return measured

    results = await asyncio.gather(*map(append_measured, chosen), return_exceptions=True)
    for problem in results:
        if isinstance(problem, BaseException) and not isinstance(problem, AdvisorError | OSError):
            raise problem
    return [result for result in results if isinstance(result, Evaluation)]
