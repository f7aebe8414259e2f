"""Texts that all forms of a report share: the order of evaluations, limits, verdicts, counts, how the run was made."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from advisor.core.budget import ON, is_floor
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import accuracy_of, latency_of, show_figure, variant_of
from advisor.core.metrics import METRICS
from advisor.core.quantity import CONFIDENCE, percent
from advisor.core.units import plural, show_ms, show_seconds
from advisor.engine.pipeline.stage import StageName
from advisor.reporting import text
from advisor.reporting.blocks import DataTable, Span, columns

if TYPE_CHECKING:
    from advisor.reporting.view import DatasetSummary, RunView

_SHOWN_ALONE = ("command_line", "versions", "durations", "weights", "without_weights")
"""Entries of the manifest that the report shows apart from the others."""

TABLE_ROWS = 10
TIES_SHOWN = 4


REASONS_SHOWN = 3


@dataclass(frozen=True)
class Step:
    """One step of the funnel.

    Attributes:
        name: the stage or condition.
        left: evaluations still in the run after it.
        lost: evaluations that stopped here.
        reasons: the most frequent reasons with their counts.
    """

    name: str
    left: int
    lost: int
    reasons: tuple[tuple[str, int], ...] = ()


def limits(view: RunView) -> tuple[tuple[str, str], ...]:
    """Return every limit set, by its name, as text."""
    budget = view.budget
    labels = {
        "latency": "p90 latency",
        "accuracy": view.metric,
        **{name: metric.label for name, metric in METRICS.items()},
    }
    numbers = [
        (labels.get(name, name), f"{'≥' if is_floor(name) else '≤'} {show_figure(name, value)}")
        for name, value in budget.limits.items()
    ]
    words = (
        ("confidence", "" if budget.confidence == CONFIDENCE else percent(budget.confidence)),
        ("licence", ", ".join(budget.licence)),
        ("must run on", ", ".join(budget.must_run_on)),
        ("prefer", str(view.request.written["prefer"])),
    )
    return (*numbers, *((label, value) for label, value in words if value))


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
    broken = [f"budget {name}" if name.startswith(ON) else name for name in view.budget.violations(evaluation)]
    return f"over {', '.join(broken)}" if broken else "dominated"


def so_far(view: RunView) -> str:
    """Return the answer so far on one line; empty where no candidate has a result."""
    pick = view.decision.pick
    if pick is None:
        return ""
    accuracy = f", {pick.accuracy.value:.1f} %" if pick.accuracy else ""
    if pick.accuracy and pick.holdout_accuracy:
        accuracy = f"{accuracy} ({pick.holdout_accuracy.value:.1f} % on the hold-out)"
    latency = f", {show_ms(pick.latency.value)}" if pick.latency else ""
    nothing = "" if view.decision.feasible else " nothing meets the budget; closest is"
    found = f"{pick.configuration.card} {pick.configuration.variant_name}{accuracy}{latency}"
    return text.plain(f"so far{nothing or ':'} {found}")


def counts(view: RunView) -> str:
    """Return how many configurations meet the budget, failed, were skipped, and were not reached by the search."""
    meet = sum(view.budget.met_by(evaluation) for evaluation in view.ok)
    failed, skipped = view.with_status(Status.FAILED), view.with_status(Status.SKIPPED)
    reached = len(view.evaluations) - sum(evaluation.stage == StageName.STOP for evaluation in skipped)
    planned = max(len(view.evaluations), int(view.manifest.get("configurations", 0)))
    left = f", {planned - reached} not reached" if planned > reached else ""
    others = len(view.ok) - meet
    return (
        f"{plural(planned, 'configuration')}: {meet} {'meets' if meet == 1 else 'meet'} the budget, "
        f"{others} {'does' if others == 1 else 'do'} not, {len(failed)} failed, "
        f"{reached - len(view.ok) - len(failed)} skipped{left}."
    )


def parts(dataset: DatasetSummary) -> str:
    """Return what the images were used for."""
    own = " (your own split)" if dataset.own_split else ""
    return (
        f"{dataset.train} for training, {dataset.validation} to compare candidates (validation), {dataset.holdout} "
        f"held out to test the finalists{own}"
    )


def method(view: RunView) -> dict[str, object]:
    """Return how the run was made, as the variables of the page's last section."""
    manifest = view.manifest
    durations = manifest.get("durations") or {}
    others = {key: value for key, value in manifest.items() if key not in _SHOWN_ALONE}
    return {
        "command_line": command_line(view),
        "weights": {name: shown(origin) for name, origin in (manifest.get("weights") or {}).items()},
        "versions": manifest.get("versions") or {},
        "durations": {str(stage): show_seconds(float(value)) for stage, value in durations.items()},
        "request": {key: shown(value) for key, value in view.request.written.items() if _is_given(value)},
        "manifest": {key: shown(value) for key, value in others.items() if _is_given(value)},
    }


def _is_given(value: object) -> bool:
    return value not in (None, "", [], {}) and value is not False


def command_line(view: RunView) -> str:
    """Return the command line, ready to be typed again; the program is without its folder."""
    given = view.manifest.get("command_line") or ""
    if isinstance(given, str):
        return given
    program, *arguments = (str(part) for part in given)
    name = PurePath(program).name
    return shlex.join(["advisor" if name in ("__main__.py", "advisor.exe") else name, *arguments])


def shown(value: object) -> str:
    """Return a value of the manifest on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value)
    return text.plain(value)


def shortlist(view: RunView) -> tuple[Evaluation, ...]:
    """Return the evaluations for the short table: the pick, its first ties, what the user ships, the front."""
    decision = view.decision
    ties = fastest_per_artefact(decision.ties)[:TIES_SHOWN]
    shipped = (each.evaluation for each in view.incumbents if not each.picked)
    named = [evaluation for evaluation in (decision.pick, *ties, *shipped) if evaluation is not None]
    chosen = list({evaluation.configuration.key: evaluation for evaluation in named}.values())
    seen = {evaluation.configuration.key for evaluation in chosen}
    others = [evaluation for evaluation in decision.front if evaluation.configuration.key not in seen]
    return (*chosen, *sorted(_spread(others, TABLE_ROWS - len(chosen)), key=accuracy_of, reverse=True))


def fastest_per_artefact(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Keep the fastest evaluation of every artefact, in the given order; the number of threads makes no other file."""
    best: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        known = best.setdefault(variant_of(evaluation), evaluation)
        if latency_of(evaluation) < latency_of(known):
            best[variant_of(evaluation)] = evaluation
    return tuple(best.values())


def _spread(items: Sequence[Evaluation], count: int) -> list[Evaluation]:
    """Return ``count`` (at least 2) of ``items`` at even distances, including both ends."""
    if len(items) <= count:
        return list(items)
    step = (len(items) - 1) / (count - 1)
    return [items[round(index * step)] for index in range(count)]


def ranked(view: RunView) -> tuple[Evaluation, ...]:
    """Return all evaluations: the pick, the front, what meets the budget, the rest; each group by falling accuracy."""

    def rank(evaluation: Evaluation) -> tuple[int, float]:
        key = evaluation.configuration.key
        groups = (
            key == view.pick_key,
            key in view.front_keys,
            view.budget.met_by(evaluation),
            evaluation.status is Status.OK,
        )
        return groups.index(True) if True in groups else len(groups), -accuracy_of(evaluation)

    return tuple(sorted(view.evaluations, key=rank))


def funnel(view: RunView) -> tuple[Step, ...]:
    """Return how many evaluations are left after each step, from all configurations to the pick."""
    left = len(view.evaluations)
    steps = [Step("planned", left, 0)]
    stopped = [evaluation for evaluation in view.evaluations if evaluation.status is not Status.OK]
    for stage in _in_order(stopped):
        lost = [evaluation for evaluation in stopped if evaluation.stage == stage]
        reasons = Counter(evaluation.reason or evaluation.status.value for evaluation in lost)
        left -= len(lost)
        steps.append(Step(stage or "unnamed stage", left, len(lost), tuple(reasons.most_common(REASONS_SHOWN))))
    return (*steps, *_decided(view, left))


def _in_order(stopped: Sequence[Evaluation]) -> list[str]:
    """Return the stages at which evaluations stopped, in the order of the work; unknown names come last."""
    order = {stage.value: index for index, stage in enumerate(StageName)}
    present = dict.fromkeys(evaluation.stage for evaluation in stopped)
    return sorted(present, key=lambda stage: order.get(stage, len(order)))


def _decided(view: RunView, left: int) -> tuple[Step, ...]:
    """Return the steps after the last stage: the budget, the front and the pick."""
    meets = sum(view.budget.met_by(evaluation) for evaluation in view.ok)
    exceeded = Counter(limit for evaluation in view.ok for limit in view.budget.violations(evaluation))
    reasons = tuple((f"over the {limit} limit", count) for limit, count in exceeded.most_common())
    budget = Step("meets the budget", meets, left - meets, reasons)
    if not view.decision.feasible:
        return (budget,)
    front = len(view.decision.front)
    dominated = (("another candidate is as good or better in every figure", meets - front),)
    return (budget, Step("on the front", front, meets - front, dominated), Step("the pick", 1, front - 1))


def failures(rows: Sequence[Evaluation], notes: Sequence[str] = ()) -> DataTable:
    """Return the table of evaluations without a result, each with its reason."""
    titles = ("configuration", "status", "stage", "reason")
    cells = [
        (text.name(row), Span(row.status.value, f"tag {row.status.value}"), row.stage, Span(row.reason, "name"))
        for row in rows
    ]
    return DataTable(columns(*titles, left=titles), cells, "Configurations without a result", "stopped", notes=notes)
