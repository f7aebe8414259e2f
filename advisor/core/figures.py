"""The figures that evaluations are chosen by, and how an evaluation is named for people."""

from __future__ import annotations

from advisor.core.evaluation import Evaluation
from advisor.core.units import show_bytes, show_ms


def artefact_of(evaluation: Evaluation) -> tuple[str, str, str]:
    """What tells artefacts apart: card, training and compression, whatever they run on."""
    configuration = evaluation.configuration
    return (configuration.card, configuration.training, configuration.compression)


def accuracy_of(evaluation: Evaluation) -> float:
    """Top-1 in %, 0 where it is not known."""
    return evaluation.accuracy.value if evaluation.accuracy else 0.0


def latency_of(evaluation: Evaluation) -> float:
    """Median latency in ms, infinite where it is not known."""
    return evaluation.latency.value if evaluation.latency else float("inf")


def p90_of(evaluation: Evaluation) -> float:
    """90th percentile of the latency in ms, the median where that alone is known."""
    return evaluation.latency_p90.value if evaluation.latency_p90 else latency_of(evaluation)


def size_of(evaluation: Evaluation) -> float:
    """Bytes of the file, infinite where they are not known."""
    return evaluation.size.value if evaluation.size else float("inf")


def name(evaluation: Evaluation) -> str:
    """Name an evaluation for people: card, recipe and threads."""
    configuration = evaluation.configuration
    threads = configuration.target.threads
    return f"{configuration.card} {configuration.compression} on {threads} thread{'s'[: threads > 1]}"


def describe(evaluation: Evaluation) -> str:
    """Name an evaluation with its three figures."""
    figures = f"{accuracy_of(evaluation):.1f} %, {show_ms(latency_of(evaluation))}, {show_bytes(size_of(evaluation))}"
    return f"{name(evaluation)} ({figures})"
