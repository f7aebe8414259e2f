"""Phrases that all forms of a report share: limits, verdicts, counts, and how the run was made."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath

from advisor.core.budget import ON, is_floor
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import show_figure
from advisor.core.latency_distribution import CONFIDENCE, percent
from advisor.core.metrics import METRICS
from advisor.core.units import plural, show_ms, show_seconds
from advisor.engine.pipeline.names import StageName
from advisor.reporting import text
from advisor.reporting.dataset import DatasetSummary
from advisor.reporting.view import RunView

_SHOWN_ALONE = ("command_line", "versions", "durations", "weights", "without_weights")
"""Entries of the manifest that the report shows apart from the others."""


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
        "pick": view.decision.pick,
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
