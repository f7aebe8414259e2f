"""JSON Schemas of the documents that commands print with ``--json`` and that a run folder has.

A document that differs from the fields of its class has a table of entries here. Other programs
read these documents, so an entry keeps its name and its meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import Field

from advisor.core import (
    Decision,
    DeviceFigures,
    Evaluation,
    FileFeatures,
    ImageAnswers,
    Limits,
    Target,
)
from advisor.core._codec import entries_of
from advisor.core._evaluation import DETAILS, list_merged_facts, name_entry
from advisor.datasets import Overview
from advisor.engine import CardForecast, Comparison, Forecast, Incumbent, PlanView, Reevaluation
from advisor.engine._history.expected_tuning import ExpectedTuning
from advisor.measurement import Delegation, DeviceBenchmark, ModelTiming, session
from advisor.measurement._host import Conditions
from advisor.reporting import Risk, RunView
from tools.schemas.described import Entries, Source, own, schema_of

VERSION: dict[str, Source] = {
    "schema_version": (Literal[1], "rises when an entry changes its meaning")
}


@dataclass(frozen=True)
class Reevaluations:
    """Answers of ``advisor reevaluate``.

    Attributes:
        changed: number of recommendations that changed or got worse.
        results: one for each run and device.
    """

    changed: int
    results: tuple[Reevaluation, ...]


def _facts(kind: Any, path: str = "") -> dict[str, str]:
    """Return the entries of ``details`` that are fields of one kind of facts; each may be
    missing.
    """
    return {f"{name_entry(field.name)}?": f"{path}{field.name}" for field in fields(kind)}


def _details() -> dict[str, str]:
    """Return the entries of ``details``; each may be missing."""
    entries: dict[str, str] = {}
    for name, entry in DETAILS.items():
        entries |= {f"{entry}?": name} if entry else _facts(list_merged_facts()[name], f"{name}.")
    return entries | {"latency_quantiles?": "latency_distribution.milliseconds"}


def _named(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _of(path: str, *names: str) -> dict[str, str]:
    return {name: f"{path}.{name}" for name in names}


ENTRIES: Mapping[type, Entries] = {
    PlanView: {
        **VERSION,
        "request": (
            Mapping[str, object],
            "the options of the question; request.schema.json describes them",
        ),
        "pictures": "images",
        "split": "split",
        "price_s": "price_s",
        "fine_tuning_s": "tuning_s",
        "price_under_limit_s": "limited_price_s",
        "configurations": (int, "number of configurations"),
        "configurations_reached": "reached",
        "download_bytes": "download_bytes",
        "cards": "cards",
        "candidates": "forecasts",
        "left_out": "left_out",
        "remarks": "remarks",
    },
    CardForecast: {
        "card": "card",
        "weights_on_disk": "on_disk",
        "download_bytes": "download_bytes",
        "price_s": "price_s",
        "first_result_s": "first_s",
        "fine_tuning_s": "tuning_s",
        "processors": "processors",
    },
    Forecast: {
        "key": "configuration.key",
        "card": "configuration.card",
        "training": "configuration.training",
        "compression": "configuration.compression",
        "threads": "configuration.target.threads",
        "latency": "latency",
        "meets_latency_budget": "chance",
        "size": "size",
        "accuracy": "accuracy",
        "price_s": "price_s",
        "filtered": "filtered",
        "nodes": "nodes",
        "processors": "processors",
    },
    Overview: {
        "grouping": "grouping",
        "own_split": "own_split",
        "images": (Mapping[str, int], "number of images in each part"),
        "images_per_class?": "parts",
        "boxes_per_class?": "boxes",
        "missing": (Mapping[str, tuple[str, ...]], "for each part the classes that it lacks"),
        "notes": "notes",
    },
    session.Benchmark: entries_of(session.Benchmark) | VERSION,
    ModelTiming: entries_of(ModelTiming) | VERSION,
    DeviceBenchmark: (
        entries_of(DeviceBenchmark)
        | VERSION
        | {
            "accelerators": (
                tuple[Delegation, ...],
                "what the accelerator of the target runs of each file",
            )
        }
    ),
    Delegation: (
        entries_of(Delegation)
        | {
            "model": (str, "the file's path as given"),
            "accelerator": (str, "name of the accelerator"),
            "title": (str, "its name as people read it"),
            "provenance": (Literal["computed"], "origin of the figures"),
            "sources": (tuple[str, ...], "where the rules of the accelerator come from"),
        }
    ),
    Conditions: own(Conditions),
    Comparison: entries_of(Comparison) | VERSION,
    Reevaluations: VERSION | own(Reevaluations),
    Reevaluation: (
        entries_of(Reevaluation)
        | {"new_run": (str | None, "path of the new run; null if nothing changed")}
    ),
    RunView: {
        **VERSION,
        "run": "name",
        "unfinished": "insights.unfinished",
        "task": (
            str | None,
            "what the model does, such as image-classification; null in damaged runs",
        ),
        "metric": "metric",
        "budget": "limits",
        "prefer": (str, "what counted: balanced, accuracy, latency, size, or weights"),
        "feasible": "decision.feasible",
        "opening": (
            tuple[str, ...],
            "the answer in plain lines: file, accuracy, latency, what is not known",
        ),
        "unknown_conditions": (
            str,
            (
                "why the pick's accuracy on another visit, camera or day is unknown; empty where"
                " new_conditions has it"
            ),
        ),
        "probabilities": (
            Mapping[str, float],
            (
                "how probably (0-1) the pick meets the limits that images decide about, such as"
                " accuracy and drop; 0.5 or more counts as met"
            ),
        ),
        **_of(
            "decision", "reason", "why_not_faster", "rule", "pick", "runner_up", "runner_up_reason"
        ),
        "incumbents": "insights.incumbents",
        "ties": "decision.ties.configuration.key",
        **_of("decision", "noise_points", "chances", "flips", "relaxations", "loosenings"),
        "unjudged": "decision.unjudged.configuration.key",
        "fine_tuning": "insights.tuning",
        "front": "decision.front",
        "risks": (tuple[Risk, ...], "risks of the pick; empty without a pick"),
        "labels": "insights.labels",
        "remarks": (
            tuple[str, ...],
            "what of the run folder does not prove itself, and what limits the figures",
        ),
        "devices": "by_device",
        "fleet": (
            Mapping[str, object] | None,
            "the files for a fleet of phones (docs/fleet.md); null without --fleet",
        ),
    },
    Limits: own(Limits),
    Incumbent: {
        "evaluation": "evaluation",
        "picked": "picked",
        "switching_points": "points",
        "switching_part": "part",
    },
    ExpectedTuning: own(ExpectedTuning) | {"command": (str, "the search that does it")},
    Decision: {
        **_named("feasible", "reason", "pick"),
        "runner_up": "runner_up.configuration.key",
        "relaxations": "relaxations",
        "front": "front.configuration.key",
    },
    Evaluation: {
        "key": "configuration.key",
        **_named("configuration", "status", "family", "reason", "stage"),
        **_named(
            "accuracy",
            "holdout_accuracy",
            "new_conditions",
            "latency",
            "latency_p90",
            "size",
            "memory",
            "drop",
        ),
        **_named("contended", "artefact", "artefact_sha256"),
        "details": (_details(), "what else is known; an entry that is not known is missing"),
    },
    Target: own(Target) | {"threads": (Annotated[int, Field(ge=1)], "number of CPU threads")},
    ImageAnswers: _facts(ImageAnswers),
    DeviceFigures: {name.rstrip("?"): source for name, source in _facts(DeviceFigures).items()},
    FileFeatures: own(FileFeatures),
}
"""Entries of the documents that differ from the fields of their class."""

ROOTS: Mapping[str, tuple[type, str]] = {
    "plan": (PlanView, "advisor plan --json"),
    "benchmark": (session.Benchmark, "advisor benchmark --json"),
    "device_benchmark": (DeviceBenchmark, "advisor benchmark --device NAME --json"),
    "evaluation": (Evaluation, "one line of evaluations.jsonl"),
    "recommendation": (
        RunView,
        "advisor search --json, advisor report --json, and recommendation.json of a run",
    ),
    "comparison": (Comparison, "advisor compare --json"),
    "reevaluation": (Reevaluations, "advisor reevaluate --json"),
}
"""The class of each document, and what writes it."""


_LINE: Entries = {
    "before?": (str, "hash of the line before this one; empty in the first"),
    "hash?": (str, "SHA-256 of the text of the line without this entry"),
}
"""Entries that an evaluation has in a run folder alone."""


def make_output(name: str) -> dict[str, Any]:
    """Return the schema of one document that the program writes."""
    root, title = ROOTS[name]
    lines = {**ENTRIES, Evaluation: {**ENTRIES[Evaluation], **_LINE}}
    return {"title": title, **schema_of(root, lines if root is Evaluation else ENTRIES)}
