"""Runs to render: test data, computed here from simple formulas; no figure is a measurement of a real model."""

import io
import random
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from functools import cache
from typing import Any

from rich.console import Console

from advisor.core import (
    Configuration,
    Decision,
    Evaluation,
    Interval,
    Limits,
    Provenance,
    Quantity,
    Status,
    Target,
    _evaluation_facts as evaluation_facts,
    parse,
)
from advisor.engine import Insights, Request, StageName, resolve
from advisor.engine._history.unfinished import Unfinished
from advisor.reporting import RunView, print_answer
from advisor.reporting._view import DatasetSummary
from tests.tables import read_table

CLASSES = ("cardboard", "glass", "metal", "paper", "plastic", "trash")

HOSTILE = tuple(read_table(__file__, "views.yaml")["hostile"])
CARDS = read_table(__file__, "views.yaml")["cards"]
RECIPES = read_table(__file__, "views.yaml")["recipes"]


def said(view: RunView, width: int = 140, encoding: str = "utf-8", brief: bool = False) -> str:
    """Return the answer of the terminal."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_answer(view, Console(file=stream, width=width, highlight=False), brief=brief)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


@cache
def run_view(
    classes: tuple[str, ...] = CLASSES,
    limits: Limits | None = None,
    data: bool = True,
    threads: tuple[int, ...] = (1, 2),
    repeats: int = 1,
    card_prefix: str = "",
    card_suffix: str = "",
) -> RunView:
    """Return a finished run over all cards, recipes and thread counts, decided by the real decision."""
    limits = limits or Limits(latency_ms=50.0, size_bytes=8_000_000, max_drop_points=2.0)
    made = list(_evaluations(classes, data, threads, repeats, random.Random(0)))
    cards = [f"{card_prefix}{row.configuration.card}{card_suffix}" for row in made]
    named = [replace(row.configuration, card=card) for row, card in zip(made, cards, strict=True)]
    evaluations = tuple(replace(row, configuration=name) for row, name in zip(made, named, strict=True))
    return RunView(
        name="20260131-1200-image-classification",
        folder="runs/20260131-1200-image-classification",
        request=_request(limits, data),
        manifest=_manifest(data),
        limits=limits,
        dataset=_dataset(classes) if data else None,
        evaluations=evaluations,
        decision=Decision.of_evaluations(evaluations, limits),
        next_command="advisor export runs/latest --to bundle",
    )


def with_pick(view: RunView, **changes: Any) -> RunView:
    """Return the run with other values of its pick."""
    return replace(view, decision=replace(view.decision, pick=replace(view.decision.pick, **changes)))


def with_dataset(view: RunView, **changes: Any) -> RunView:
    """Return the run with other values of its images."""
    return replace(view, dataset=replace(view.dataset, **changes))


@cache
def judged_view() -> RunView:
    """Return a run of which the finalists were judged on the hold-out, a little below validation."""
    view = with_dataset(run_view(), train=300, validation=100)
    decision = view.decision
    files = {e.artefact for e in (decision.pick, decision.runner_up, *decision.ties, *decision.front) if e}
    judged = tuple(_judged(e) if e.artefact in files else e for e in view.evaluations)
    return replace(view, evaluations=judged, decision=Decision.of_evaluations(judged, view.limits))


def unknown_view(training: str = "head", **changes: object) -> RunView:
    """Return such a run whose pick has one more class, judged with two classes left out and on other things."""
    view = judged_view()
    size = round(view.decision.pick.size.value) + 433_000
    document = {**read_table(__file__, "views.yaml")["unknown"], "sha256": "e" * 64, "size_bytes": size}
    facts = parse(evaluation_facts.UnknownFacts, document)
    configuration = replace(view.decision.pick.configuration, training=training)
    return with_pick(view, configuration=configuration, unknown=replace(facts, **changes))


def few_view() -> RunView:
    """Return such a run that has 4 validation images of one class, and none of another one."""
    return with_dataset(judged_view(), validated_per_class=dict(zip(CLASSES, (30, 4, 30, 0, 30, 30), strict=True)))


def _judged(evaluation: Evaluation) -> Evaluation:
    table = evaluation.answers.confusion or ()
    confusion = tuple(
        tuple(sum(row) * (place == label) for place in range(len(row))) for label, row in enumerate(table)
    )
    value = evaluation.accuracy.value - 1.5
    robust = Quantity(value - 9, "%", Provenance.MEASURED, value - 12, value - 6, 0.95, 250, "capture conditions")
    conditions = (
        evaluation_facts.ConditionAccuracy("low light", 1.0, value - 4),
        evaluation_facts.ConditionAccuracy("low light", 2.0, value - 14),
    )
    return replace(
        evaluation,
        holdout_accuracy=Quantity(value, "%", Provenance.MEASURED, value - 3, value + 3, 0.95, 505, "hold-out"),
        holdout_answers=evaluation_facts.ImageAnswers(file="answers/holdout-x.npy", confusion=confusion),
        capture=evaluation_facts.CaptureAccuracy(conditions, holdout=robust),
    )


def running_view(evaluated: int = 34) -> RunView:
    """Return the run while its search is running; 0 for one without any result."""
    state = Unfinished(evaluated, 100, running=True, at="2026-01-31T12:00:00+00:00")
    view = replace(run_view(), insights=Insights(unfinished=state), next_command="")
    return view if evaluated else replace(view, evaluations=(), decision=Decision.of_evaluations((), view.limits))


def infeasible_view() -> RunView:
    """Return a run that nothing in it meets: the fastest candidate takes longer than the limit."""
    return run_view(limits=Limits(latency_ms=0.2, size_bytes=8_000_000))


@cache
def empty_view() -> RunView:
    """Return a run in which every candidate failed."""
    view = run_view()
    failed = tuple(
        Evaluation(row.configuration, Status.FAILED, row.family, "the weights cannot be fetched", StageName.CONVERT)
        for row in view.evaluations
    )
    return replace(view, evaluations=failed, decision=Decision.of_evaluations(failed, view.limits))


def _evaluations(
    classes: Sequence[str], data: bool, threads: tuple[int, ...], repeats: int, rng: random.Random
) -> Iterable[Evaluation]:
    for repeat in range(repeats):
        for card in CARDS:
            name, share = f"{card[0]}_v{repeat}" if repeat else card[0], card[-1]
            for recipe in RECIPES:
                form, *_, lost = recipe
                confusion = _confusion(classes, share - lost + rng.uniform(-0.003, 0.003), rng)
                for count in threads:
                    target = Target("host", "ai-edge-litert==2.3.0", "cpu", count)
                    configuration = Configuration(name, "head" if data else "none", form, target)
                    yield _evaluation(configuration, card, recipe, confusion, data, rng)


def _evaluation(
    configuration: Configuration,
    card: tuple[str, str, float, float, float],
    recipe: tuple[str, float, float, float],
    confusion: list[list[int]],
    data: bool,
    rng: random.Random,
) -> Evaluation:
    (_, family, macs, params, _), (compression, width, speed, lost) = card, recipe
    if family == "squeezenet" and compression == "weight_int8":
        reason = 'weight_int8 needs a weight of at least 1024 values; <conv10> has "512"'
        return Evaluation(configuration, Status.SKIPPED, family, reason, StageName.COMPRESS)
    if family == "inception_v3" and compression == "int8":
        reason = "the child process was killed after 120 s"
        return Evaluation(configuration, Status.FAILED, family, reason, StageName.TIMING)
    count = configuration.target.threads
    median = macs / speed / count**0.85 * rng.uniform(0.95, 1.05)
    size = params * width * 1e6 + 40_000
    latency = Quantity(median, "ms", Provenance.MEASURED, median * 0.97, median * 1.04, 0.95, 150, "this machine")
    return Evaluation(
        configuration,
        Status.OK,
        family,
        accuracy=_accuracy(confusion, data),
        latency=latency,
        latency_p90=Quantity(median * 1.09, "ms", Provenance.MEASURED, n=150, source="this machine"),
        size=Quantity(size, "bytes", Provenance.MEASURED, source="file"),
        memory=Quantity(size * 1.1 + macs * 9e3 + 6e6, "bytes", Provenance.MEASURED, source="peak private memory"),
        drop=Quantity(lost * 100, "points", Provenance.MEASURED, lost * 100 - 0.6, lost * 100 + 0.6, 0.95),
        contended=family == "mobilenet_v1" and count == 2 and compression == "float32",
        artefact=f"artifacts/{configuration.card}-{compression}.tflite",
        artefact_sha256=f"{rng.getrandbits(256):064x}",
        card_facts=evaluation_facts.CardFacts(macs=int(macs * 1e6)),
        file_facts=evaluation_facts.FileFacts(int(macs * 7e3), int(size * 0.92), int(size * 0.9)),
        timing=evaluation_facts.TimingFacts(
            load_ms=round(size / 4e6 + rng.uniform(0.5, 2), 2), first_ms=round(macs / 5, 2)
        ),
        answers=evaluation_facts.ImageAnswers(confusion=tuple(map(tuple, confusion)) if data else None),
    )


def _confusion(classes: Sequence[str], share: float, rng: random.Random) -> list[list[int]]:
    """Rows are the true class, columns the answer; errors lean towards the next class."""
    table = []
    for index, total in enumerate(_holdout(classes)):
        right = min(total, max(0, round(total * (share + (0.06 if index % 2 else -0.06)))))
        row = [0] * len(classes)
        row[index] = right
        for _ in range(total - right):
            wrong = (index + (1 if rng.random() < 0.6 else rng.randrange(1, len(classes)))) % len(classes)
            row[wrong] += 1
        table.append(row)
    return table


def _accuracy(confusion: list[list[int]], data: bool) -> Quantity:
    right, total = sum(row[index] for index, row in enumerate(confusion)), sum(map(sum, confusion))
    if not data:
        return Quantity(100 * right / total, "%", Provenance.PUBLISHED, source="paper")
    value, low, high = (100 * end for end in astuple(Interval.wilson(right, total)))
    return Quantity(value, "%", Provenance.MEASURED, low, high, 0.95, total, "hold-out pictures")


def _holdout(classes: Sequence[str]) -> list[int]:
    return [60 + 13 * (index % 4) for index in range(len(classes))]


def _dataset(classes: Sequence[str]) -> DatasetSummary:
    holdout = _holdout(classes)
    return DatasetSummary(
        folder="pictures",
        images_per_class={label: 5 * count for label, count in zip(classes, holdout, strict=True)},
        train=3 * sum(holdout),
        validation=sum(holdout),
        holdout=sum(holdout),
        rejected=(
            {"path": f"{classes[0]}/IMG_0031.jpg", "reason": "truncated: 2,048 of 48,113 bytes"},
            {"path": f"{classes[-1]}/notes.txt", "reason": "not a picture"},
        ),
    )


def _request(limits: Limits, data: bool) -> Request:
    options = {"budget": f"{limits.latency_ms:g}ms", "size_budget": f"{limits.size_bytes / 1e6:g}MB"}
    return resolve({**options, "data": "pictures" if data else None})


def _manifest(data: bool) -> dict[str, object]:
    return {
        **read_table(__file__, "views.yaml")["manifest"],
        "weights": {card: {"sha256": f"{index:064x}", "source": "test data"} for index, (card, *_) in enumerate(CARDS)},
        "without_weights": {"mnasnet_1.0_224": f"no source answered: {'long_name' * 12}"},
        "data_fingerprint": "3f1c" * 16 if data else None,
    }
