"""Decide over the evaluations of a run folder, also while the search goes on."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped,unused-ignore]

from advisor.core import (
    Answers,
    Decision,
    Evaluation,
    Interval,
    Limits,
    Provenance,
    Quantity,
    Relaxation,
    Status,
    decide,
    pool_timings,
    recipe_of,
)
from advisor.datasets import HOLDOUT, VALIDATION
from advisor.engine._execution import Machine
from advisor.engine._question import Question
from advisor.engine._refutation import accuracy_on_both, is_refuted, sentence_of_refutation
from advisor.engine._targets.device_rows import on_device, with_required_figures, worst_case
from advisor.store import RunFolder

FLOAT = "float32"

LARGEST_SHARE = 1e6
"""A share that an image can have: it may be the only one of its class among many.
A larger one is damage.
"""

Decide = Callable[[Sequence[Evaluation]], Decision]

LOOK_S = 0.5
"""Seconds between two looks at the evaluations."""

REST = 20.0
"""Seconds without an answer for each second of CPU time that one took:
answers take at most 5 % of one core.
"""


@dataclass(frozen=True)
class Answer:
    """The decision over a run's evaluations,
    which have the probability of meeting the budget and device figures.

    For several devices, ``decision`` is the one model for all of them,
    and ``by_device`` has the answer for each.
    """

    evaluations: tuple[Evaluation, ...]
    decision: Decision
    by_device: Mapping[str, Decision] = field(default_factory=dict)


def decide_run(
    run: RunFolder,
    evaluations: Sequence[Evaluation],
    question: Question,
    judged_first: bool = True,
) -> Answer:
    """Return the decision; it compares accuracies on the same images image by image.

    Files of one graph have one latency. ``judged_first``: of files that are tied, one that ran on
    the hold-out comes before one that did not; False to find what should run there.
    """
    # Threads of BLAS that wait between two small products would spin.
    with _blas().limit(limits=1):
        return _make_answer(run, evaluations, question, judged_first)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _make_answer(
    run: RunFolder, evaluations: Sequence[Evaluation], question: Question, judged_first: bool
) -> Answer:
    """See :func:`decide_run`."""
    limits = question.limits
    devices = question.devices
    answers = answers_on_images(run)
    # Without the figures on devices of an earlier decision,
    # and without what earlier versions said of new conditions.
    fresh = [replace(e, device_figures={}, required_figures=None) for e in evaluations]
    fresh = [replace(e, new_conditions=None) if e.in_unknown_conditions else e for e in fresh]
    fresh = _with_holdout_drops(run, fresh, limits)
    known = [limits.with_budget_probability(e) for e in pool_timings(fresh)]
    # A required device sets limits alone:
    # its own rows are no candidates, unless the question names it too.
    if limits.must_run_on:
        known = with_required_figures(
            known, {device: on_device(known, device) for device in limits.must_run_on}
        )
    only_required = set(limits.must_run_on) - set(devices)
    candidates = []
    for e in known:
        if e.configuration.target.device not in only_required:
            candidates.append(e)
    full = []
    for e in candidates:
        if not recipe_of(e.configuration.training).quick_head:
            full.append(e)
    # A quick head is the last resort.
    candidates = full if any(e.status is Status.OK for e in full) else candidates

    # Random weights make a valid file with real timings, which must never ship.
    without = sorted({e.configuration.card for e in candidates if e.card_facts.lacks_weights})
    candidates = [e for e in candidates if not e.card_facts.lacks_weights]

    def decide_over(rows: Sequence[Evaluation]) -> Decision:
        decision = decide(rows, limits, answers, question.preference, judged_first)
        if decision.pick is None and without:
            fetch = f"Get weights (advisor catalog fetch {' '.join(without)}), then search again."
            return replace(
                decision,
                reason=f"Nothing to ship: {', '.join(without)} ran without weights. {fetch}",
            )
        network = decision.pick.network if decision.pick else None
        others = [evaluation for evaluation in rows if evaluation.network != network]
        # Only this pick is questioned. Each refutation uses the hold-out once more,
        # and makes its figure a little too high.
        if (
            decision.pick is None
            or not decision.feasible
            or not others
            or not is_refuted(decision.pick)
        ):
            return decision
        again = decide(others, limits, answers, question.preference, judged_first)
        return _unless_refuted(decision, again, judged_first)

    # For one device, the worst case over all devices is that device,
    # and a second decision would say the same.
    if len(devices) == 1:
        return Answer(tuple(known), decide_over(candidates))
    by_device = {device: decide_over(on_device(candidates, device)) for device in devices}
    return Answer(tuple(known), _decide_for_all(candidates, devices, decide_over), by_device)


def _unless_refuted(decision: Decision, again: Decision, judged_first: bool) -> Decision:
    """Return the decision, or the one ``again`` without the network of its pick,
    which the hold-out refutes.

    The other pick must be better on validation and hold-out together. One that did not run on the
    hold-out is only returned to find what should run there, where ``judged_first`` is False.
    """
    refuted = decision.pick
    other = again.pick
    if refuted is None or other is None or not again.feasible:
        return decision
    # A refuted pick is still better known than a file that nothing has judged.
    if other.holdout_accuracy is None:
        return decision if judged_first else again
    refuted_accuracy = accuracy_on_both(refuted)
    other_accuracy = accuracy_on_both(other)
    if refuted_accuracy is None or other_accuracy is None or other_accuracy <= refuted_accuracy:
        return decision
    return replace(again, reason=f"{again.reason} {sentence_of_refutation(refuted)}")


def _with_holdout_drops(
    run: RunFolder, evaluations: list[Evaluation], limits: Limits
) -> list[Evaluation]:
    """Return the evaluations with the loss on the hold-out where both a file
    and its float32 file ran there.
    """
    # Without a limit of the drop nobody reads this figure, and the files of answers are large.
    labels = _labels(run, HOLDOUT) if limits.max_drop_points is not None else ()
    if not labels:
        return evaluations

    @cache
    def correct(file: str) -> tuple[float, ...] | None:
        return _correct(run, file, labels)

    def right(evaluation: Evaluation) -> tuple[float, ...] | None:
        judged = evaluation.holdout_answers
        if judged is not None and judged.compared_by:
            return correct(judged.compared_by)
        return None

    floats = {}
    for evaluation in evaluations:
        answers = right(evaluation)
        if evaluation.configuration.compression == FLOAT and answers:
            floats[evaluation.network] = answers

    def judged(evaluation: Evaluation) -> Evaluation:
        answers = right(evaluation)
        reference = floats.get(evaluation.network)
        # A drop of an earlier decision may belong to another float file.
        if not answers or not reference:
            return replace(evaluation, holdout_drop=None)
        lost = Interval.difference_of_means(reference, answers)
        value, low, high = (100 * share for share in (lost.value, lost.low, lost.high))
        source = "against float32 on the hold-out"
        drop = Quantity(value, "points", Provenance.MEASURED, low, high, 0.95, len(labels), source)
        return replace(evaluation, holdout_drop=drop)

    return list(map(judged, evaluations))


def _decide_for_all(
    evaluations: Sequence[Evaluation], devices: Sequence[str], decide_over: Decide
) -> Decision:
    """Return the one model for all devices;
    if none fits, name the device whose removal allows one.
    """
    decision = decide_over(worst_case(evaluations, devices))
    if decision.feasible:
        return decision
    if decision.pick is None and any(e.status is Status.OK for e in evaluations):
        decision = replace(decision, reason=f"No file runs on all of {', '.join(devices)}.")
    ways = list(decision.relaxations)
    for device in devices:
        rest = [other for other in devices if other != device]
        without = decide_over(worst_case(evaluations, rest))
        if without.pick is not None and without.feasible:
            now = ", ".join(devices)
            then = ", ".join(rest)
            text = f"devices {now} -> {then} admits {without.pick.describe_figures()}"
            ways.append(Relaxation("devices", now, then, without.pick.configuration.key, text))
    return replace(decision, relaxations=tuple(ways))


def answers_on_images(run: RunFolder) -> Answers:
    """Return the function that gives each validation image's share
    in the accuracy of an evaluation, or None.
    """
    labels = _labels(run)

    @cache
    def correct(file: str) -> tuple[float, ...] | None:
        return _correct(run, file, labels) if file and labels else None

    return lambda evaluation: correct(evaluation.answers.compared_by)


def correct_answers(
    run: RunFolder, evaluation: Evaluation, part: str = VALIDATION
) -> tuple[float, ...] | None:
    """Return the share of each image of a part in the accuracy, None if it is not known.

    By top-1 it is 0 or 1. Candidates
    that were compared under capture conditions saw each image several times.
    """
    judged = evaluation.holdout_answers if part == HOLDOUT else evaluation.answers
    labels = _labels(run, part)
    file = judged.compared_by if judged else ""
    return _correct(run, file, labels) if labels and file else None


def read_compared_hashes(run: RunFolder) -> tuple[str, ...]:
    """Return the hashes of the validation images, in order; empty if they are not known."""
    rows = run.read_json("split.json").get(VALIDATION)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return ()
    return tuple(str(row.get("sha256", "")) for row in rows)


def read_image_array(run: RunFolder, name: str) -> NDArray[Any] | None:
    """Return what a run keeps of each image, such as the answers of a file;
    None if it is missing or has changed.
    """
    try:
        if not (run.path / name).is_file() or not run.is_unchanged(name):  # a pipe would never end
            return None
        # Refuses a shape that is larger than the file.
        return np.lib.format.open_memmap(run.path / name, mode="r")
    except (OSError, ValueError, OverflowError):
        return None


def _labels(run: RunFolder, *parts: str) -> tuple[int, ...]:
    split = run.read_json("split.json")
    try:
        label_of = {name: label for label, name in enumerate(split["classes"])}
        labels = []
        for part in parts or (VALIDATION,):
            for row in split[part]:
                labels.append(label_of[row["class"]])
        return tuple(labels)
    except (KeyError, TypeError):
        return ()


def _correct(run: RunFolder, file: str, labels: Sequence[int]) -> tuple[float, ...] | None:
    """Return each image's share in the accuracy, None if the file is missing,
    damaged or of other images.

    By top-1 it is the share of correct answers, from the labels in the file;
    by other figures the file has the shares.
    """
    answers = read_image_array(run, file)
    if answers is None:
        return None
    # Shares are floats and labels integers:
    # the type of the array tells which of the two the file holds.
    if (
        answers.dtype == np.float32
        and answers.shape == (len(labels),)
        and (np.abs(answers) <= LARGEST_SHARE).all()
    ):
        return tuple(map(float, answers))
    whole = answers.dtype.kind in "iu" and answers.ndim in (1, 2) and answers.size
    if not whole or answers.shape[-1] != len(labels):
        return None
    return tuple((answers.reshape(-1, len(labels)) == np.asarray(labels)).mean(axis=0).tolist())


_log = logging.getLogger(__name__)


MakeAnswer = Callable[[RunFolder], None]
"""Decides over the evaluations of a run so far, and shows or writes the answer."""


@asynccontextmanager
async def answering(run: RunFolder, answer: MakeAnswer, machine: Machine) -> AsyncIterator[None]:
    """Call ``answer`` in a thread, at once and whenever the run has new evaluations;
    never during a measurement.
    """
    task = asyncio.ensure_future(_keep_answering(run, answer, machine))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _keep_answering(run: RunFolder, answer: MakeAnswer, machine: Machine) -> None:
    seen = -1
    first = True
    while True:
        size = run.evaluations_file.stat().st_size if run.evaluations_file.is_file() else 0
        if size != seen:
            seen = size
            async with machine.beside():
                taken_s = await asyncio.to_thread(_time_answer, answer, run)
            # The first one took its imports, too.
            await asyncio.sleep(0.0 if first else REST * taken_s)
            first = False
        await asyncio.sleep(LOOK_S)


def _time_answer(answer: MakeAnswer, run: RunFolder) -> float:
    """Call ``answer`` and return the CPU seconds that it took."""
    started = time.thread_time()
    try:
        answer(run)
    except Exception as error:
        _log.warning(
            "the answer so far of '%s' cannot be given: %s: %s",
            run.path,
            type(error).__name__,
            error,
        )
    return time.thread_time() - started
