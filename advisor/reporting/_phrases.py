"""Texts and choices that all forms of a report share: the order of evaluations, limits, verdicts,
counts, and how the run was made.

What two forms say of the same thing is made here once, above all the count of configurations
(:func:`count_configurations`): two parts of a report must not count differently.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import PurePath
from typing import TYPE_CHECKING

from advisor.core import (
    CONFIDENCE,
    METRICS,
    ON,
    Evaluation,
    Provenance,
    Status,
    listed,
    plural,
    show_figure,
    show_ms,
    show_probability,
    show_seconds,
)
from advisor.engine import StageName
from advisor.reporting import _text as text
from advisor.reporting._blocks import Labelled, Span, Words

if TYPE_CHECKING:
    from advisor.reporting._view import DatasetSummary, RunView

_SHOWN_ALONE = (
    "command_line",
    "versions",
    "durations",
    "weights",
    "without_weights",
    "whole_networks",
    "connections",
)
"""Entries of the manifest that the report shows apart from the others."""

WRONG_NAMED = 3
"""Images with a likely wrong label that are named; the others are counted."""

TABLE_ROWS = 10
TIES_SHOWN = 4
REASONS_SHOWN = 3


@dataclass(frozen=True)
class Step:
    """One step of the funnel: evaluations left after it, those that stopped here,
    and the most frequent reasons.
    """

    name: str
    left: int
    lost: int
    reasons: tuple[tuple[str, int], ...] = ()


def describe_limits(view: RunView) -> tuple[tuple[str, str], ...]:
    """Return every limit set, by its name, as text."""
    limits = view.limits
    metrics = {name: metric.label for name, metric in METRICS.items()}
    metrics |= {f"{name} drop": f"drop of {label}" for name, label in metrics.items()}
    labels = {"latency": "p90 latency", "accuracy": view.metric, **metrics}
    described = []
    for name, value in limits.by_figure.items():
        sign = "≥" if name in limits.floors else "≤"
        described.append((labels.get(name, name), f"{sign} {show_figure(name, value)}"))
    confidence = ""
    if limits.confidence != CONFIDENCE:
        confidence = show_probability(limits.confidence)
    words = {
        "confidence": confidence,
        "licence": ", ".join(limits.licence),
        "must run on": ", ".join(limits.must_run_on),
        "prefer": str(view.request.written["prefer"]),
    }
    # What the user did not set is no limit to name.
    described += filter(itemgetter(1), words.items())
    return tuple(described)


def verdict(view: RunView, evaluation: Evaluation) -> str:
    """Return the verdict on an evaluation in one or two words."""
    key = evaluation.configuration.key
    if key == view.pick_key:
        return "pick" if view.decision.feasible else "closest"
    if evaluation.status is not Status.OK:
        return evaluation.status.value
    if evaluation.card_facts.as_it_is:
        return "shipped today"
    if key in view.device_picks:
        return f"pick on {evaluation.configuration.target.device}"
    if key in view.tie_keys:
        return "tie"
    if key in view.front_keys:
        return "front"
    broken = []
    for name in view.limits.violations(evaluation):
        broken.append(f"budget {name}" if name.startswith(ON) else name)
    return f"over {', '.join(broken)}" if broken else "dominated"


def so_far(view: RunView) -> str:
    """Return the answer so far on one line; empty where no candidate has a result."""
    pick = view.decision.pick
    if pick is None:
        return ""
    judged = ""
    if pick.holdout_accuracy:
        judged = f" ({pick.holdout_accuracy.value:.1f} % on the hold-out)"
    accuracy = ""
    if pick.accuracy:
        accuracy = f", {pick.accuracy.value:.1f} %{judged}"
    latency = ""
    if pick.latency:
        latency = f", {show_ms(pick.latency.value)}"
    start = ":" if view.decision.feasible else " nothing meets the budget; closest is"
    return text.plain(f"so far{start} {text.file(pick)}{accuracy}{latency}")


@dataclass(frozen=True)
class ConfigurationCounts:
    """The configurations of a run by how they ended; each belongs to one group."""

    planned: int  #: all of them
    meet: int  #: within the limits
    files: int  #: files of these, some of which were timed at several numbers of threads
    over: int  #: over a limit
    unranked: int  #: without an accuracy
    failed: int  #: failed
    skipped: int  #: skipped for a reason
    unreached: int  #: not reached when the search ended


def count_configurations(view: RunView) -> ConfigurationCounts:
    """Return the one count of a run's configurations, which every part of a report uses."""
    view = leave_out_required(view)
    within = list(filter(view.limits.met_by, view.ok))
    meet = len(within)
    variants = {(row.configuration.card, row.configuration.variant_name) for row in within}
    unranked = sum(evaluation.accuracy is None for evaluation in view.ok)
    failed = len(view.with_status(Status.FAILED))
    skipped = view.with_status(Status.SKIPPED)
    stopped = sum(evaluation.stage == StageName.STOP for evaluation in skipped)
    # A re-evaluation answers for the files of its parent,
    # whose manifest counts what the parent's search planned.
    of_search = 0
    if "reevaluated" not in view.manifest:
        of_search = int(view.manifest.get("configurations", 0))
    planned = max(len(view.evaluations), of_search)
    return ConfigurationCounts(
        planned=planned,
        meet=meet,
        files=len(variants),
        over=len(view.ok) - meet - unranked,
        unranked=unranked,
        failed=failed,
        skipped=len(skipped) - stopped,
        unreached=planned - len(view.evaluations) + stopped,
    )


def leave_out_required(view: RunView) -> RunView:
    """Return a run without the rows of devices that the pick must run on, too:
    they show figures, and are no choice.
    """
    required = set(view.limits.must_run_on) - set(view.request.question.devices)
    if not required:
        return view
    rows = []
    for row in view.evaluations:
        if row.configuration.target.device not in required:
            rows.append(row)
    return replace(view, evaluations=tuple(rows))


def counts(view: RunView) -> str:
    """Return how many configurations meet the budget, failed, were skipped,
    and were not reached by the search.
    """
    tally = count_configurations(view)
    # A reader would take the configurations of one file, such as at 1 and 2 threads, for files.
    files = f" ({plural(tally.files, 'file')})" if tally.files < tally.meet else ""
    meet = "meets" if tally.meet == 1 else "meet"
    over = "does" if tally.over == 1 else "do"
    # Another device than this machine may be over a budget of latency.
    where = " on this machine" if view.only_here and view.limits.latency_ms else ""
    groups = [f"{tally.meet}{files} {meet} the budget{where}", f"{tally.over} {over} not"]
    if tally.unranked:
        groups.append(f"{tally.unranked} without an accuracy")
    groups += (f"{tally.failed} failed", f"{tally.skipped} skipped")
    if tally.unreached:
        groups.append(f"{tally.unreached} not reached")
    return f"{plural(tally.planned, 'configuration')}: {', '.join(groups)}."


def parts(dataset: DatasetSummary) -> str:
    """Return what the images were used for."""
    split = " (your own split)" if dataset.own_split else ""
    return (
        f"{dataset.train} for training, {dataset.validation} to compare candidates (validation),"
        f" {dataset.holdout} held out to test the finalists{split}"
    )


def wrong_labels(view: RunView) -> Words:
    """Return how many labels are doubtful, the first of them, and the command that shows all;
    empty for none.
    """
    checked = view.insights.labels
    if checked is None or not checked.found:
        return ""
    count = len(checked.found)
    data = view.request.written["data"]
    names = []
    for image in checked.found:
        names.append(f"{image.path} ({image.label}, rather {image.suggested})")
    have = "has" if count == 1 else "have"
    sentence = (
        f"{count:,} of {checked.images:,} images outside the hold-out"
        f" ({100 * count / checked.images:.1f} %) {have} a doubtful label: it is wrong, or the"
        f" image is hard. The most doubtful: {listed(names, WRONG_NAMED)}."
        " To look at such images: "
    )
    return sentence, Span(shlex.join(["advisor", "data", "check", str(data)]), "command")


def method(view: RunView) -> dict[str, object]:
    """Return how the run was made, as the variables of the page's last section."""
    manifest = view.manifest
    others = {}
    for key, value in manifest.items():
        if key not in _SHOWN_ALONE:
            others[key] = value
    weights = {}
    for name, origin in (manifest.get("weights") or {}).items():
        weights[name] = show_value(origin)
    again = _describe_again(view)
    durations = {}
    # The seconds and the command of a run that was evaluated again are those of its parent.
    for stage, seconds in ({} if again else manifest.get("durations") or {}).items():
        durations[str(stage)] = show_seconds(float(seconds))
    return {
        "again": again,
        "timed": _is_timed(view),
        "confidence": show_probability(view.limits.confidence),
        "command_line": "" if again else command_line(view),
        "weights": weights,
        "versions": manifest.get("versions") or {},
        "durations": durations,
        "request": _show_stated(view.request.written),
        "manifest": _show_stated(others),
    }


def _describe_again(view: RunView) -> str:
    """Return which run was evaluated again, and for which device; empty for a search."""
    facts = view.manifest.get("reevaluated")
    if not isinstance(facts, Mapping):
        return ""
    parent = facts.get("parent", "")
    return f"This answer evaluates the files of the run {parent} again, for {facts.get('device')}."


def _is_timed(view: RunView) -> bool:
    """Return whether the latency of the pick was measured, or any one where nothing is picked."""
    rows = view.ok if view.decision.pick is None else (view.decision.pick,)
    latencies = [row.latency for row in rows if row.latency is not None]
    return any(latency.provenance is Provenance.MEASURED for latency in latencies)


def _show_stated(entries: Mapping[str, object]) -> dict[str, str]:
    """Return the entries that have a value, as text; 0 is one."""
    stated = {}
    for key, value in entries.items():
        if value not in (None, "", [], {}) and value is not False:
            stated[key] = show_value(value)
    return stated


def command_line(view: RunView) -> str:
    """Return the command line, ready to be typed again; the program is without its folder."""
    written = view.manifest.get("command_line") or ""
    if isinstance(written, str):
        return written
    program, *arguments = map(str, written)
    name = PurePath(program).name
    # Started by `python -m`, the program's name is that of its module.
    if name in ("__main__.py", "advisor.exe"):
        name = "advisor"
    return shlex.join([name, *arguments])


def show_value(value: object) -> str:
    """Return a value of the manifest on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {show_value(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(show_value, value))
    return text.plain(value)


def shortlist(view: RunView, rival: Evaluation | None = None) -> tuple[Evaluation, ...]:
    """Return the evaluations for the short table:
    the pick, its first ties, what the user ships, the front.

    Of the front, those at even distances, with both ends. A ``rival`` of the pick is there, too:
    a sentence names it.
    """
    decision = view.decision
    first = [] if decision.pick is None else [decision.pick]
    first += fastest_per_artefact(decision.ties)[:TIES_SHOWN]
    for incumbent in view.insights.incumbents:
        if not incumbent.picked:
            first.append(incumbent.evaluation)
    chosen = {row.configuration.key: row for row in first}
    files = {row.variant for row in first}
    rivals = [] if rival is None or rival.variant in files else [rival]
    others = []
    for row in decision.front:
        if row.configuration.key not in chosen and row not in rivals:
            others.append(row)
    count = TABLE_ROWS - len(chosen) - len(rivals)
    if len(others) > count:
        step = (len(others) - 1) / (count - 1)
        others = [others[round(index * step)] for index in range(count)]
    others += rivals
    others.sort(key=lambda evaluation: evaluation.accuracy_percent, reverse=True)
    return (*chosen.values(), *others)


def fastest_per_artefact(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Keep the fastest evaluation of every artefact, in the given order;
    the number of threads makes no other file.
    """
    best: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        fastest = best.setdefault(evaluation.variant, evaluation)
        if evaluation.latency_ms < fastest.latency_ms:
            best[evaluation.variant] = evaluation
    return tuple(best.values())


def rank_begun(view: RunView) -> tuple[Evaluation, ...]:
    """Return what was begun: the pick, the front, what meets the budget, the rest;
    each group by falling accuracy.
    """
    front = view.front_keys

    def rank(row: Evaluation) -> tuple[int, float]:
        key = row.configuration.key
        ok = row.status is Status.OK
        # The last group takes every row, so that each row has one.
        groups = (key == view.pick_key, key in front, view.limits.met_by(row), ok, True)
        return groups.index(True), -row.accuracy_percent

    return tuple(sorted((row for row in view.evaluations if row.was_begun), key=rank))


def funnel(view: RunView) -> tuple[Step, ...]:
    """Return how many evaluations are left after each step, from all configurations to the pick.

    Stages are in the order of the work; unknown names come last. Budget, front and pick follow.
    """
    view = leave_out_required(view)
    configurations = count_configurations(view)
    left = configurations.planned
    is_again = "reevaluated" in view.manifest
    steps = [Step("evaluated again" if is_again else "planned", left, 0)]
    order = {stage.value: index for index, stage in enumerate(StageName)}
    stopped = [row for row in view.evaluations if row.status is not Status.OK]
    stages = dict.fromkeys(row.stage for row in stopped)
    if configurations.unreached:
        stages[StageName.STOP] = None
    for stage in sorted(stages, key=lambda stage: order.get(stage, len(order))):
        lost = []
        for row in stopped:
            if row.stage == stage:
                # What follows names figures of one network.
                reason, _, _ = row.reason.partition("; ")
                lost.append(reason or row.status.value)
        # Most of those that a search did not reach have no row.
        if stage == StageName.STOP:
            lost += ["not reached"] * (configurations.unreached - len(lost))
        left -= len(lost)
        reasons = Counter(lost).most_common(REASONS_SHOWN)
        others = len(lost) - sum(count for _, count in reasons)
        if others:
            reasons.append(("for other reasons", others))
        steps.append(Step(stage or "unnamed stage", left, len(lost), tuple(reasons)))
    meets = sum(map(view.limits.met_by, view.ok))
    exceeded = Counter[str]()
    for row in view.ok:
        exceeded.update(f"over the {limit} limit" for limit in view.limits.violations(row))
    steps.append(Step("meets the budget", meets, left - meets, tuple(exceeded.most_common())))
    if not view.decision.feasible:
        return tuple(steps)
    front = len(view.decision.front)
    dominated = (
        ("another candidate is as good or better in accuracy, latency and size", meets - front),
    )
    return (
        *steps,
        Step("on the front", front, meets - front, dominated),
        Step("the pick", 1, front - 1),
    )


def leave_out_sentence(
    warned: Labelled, sentence: Labelled | None, opening: str
) -> Labelled | None:
    """Return a warning without a ``sentence``, which stands above the table;
    None if nothing is left of it.

    ``opening`` has all that stands above the table.
    """
    if str(warned.words) in opening:
        return None
    if sentence is None or not isinstance(warned.words, str):
        return warned
    first = text.first_sentence(warned.words)
    if not str(sentence.words).startswith(first):
        return warned
    rest = warned.words.removeprefix(first).strip()
    return replace(warned, words=rest) if rest else None
