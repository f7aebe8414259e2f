"""The figures that evaluations are ranked by, and their names for people."""

from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import plural, show_bytes, show_ms, show_ms_interval

HOST = "host"


def variant_of(evaluation: Evaluation) -> tuple[str, str, str]:
    """Return the variant: card, training and compression, without the target."""
    configuration = evaluation.configuration
    return (configuration.card, configuration.training, configuration.compression)


def network_of(evaluation: Evaluation) -> tuple[str, str]:
    """Return card and training: what the forms of one trained network share."""
    return variant_of(evaluation)[:2]


def accuracy_of(evaluation: Evaluation) -> float:
    """Return the accuracy in %, 0 where it is unknown."""
    return evaluation.accuracy.value if evaluation.accuracy else 0.0


def latency_of(evaluation: Evaluation) -> float:
    """Return the median latency in ms, infinite where it is unknown."""
    return evaluation.latency.value if evaluation.latency else float("inf")


def p90_of(evaluation: Evaluation) -> float:
    """Return the 90th percentile of the latency in ms, the median where only that is known."""
    return evaluation.latency_p90.value if evaluation.latency_p90 else latency_of(evaluation)


def size_of(evaluation: Evaluation) -> float:
    """Return the bytes of the file, infinite where they are unknown."""
    return evaluation.size.value if evaluation.size else float("inf")


def name(evaluation: Evaluation) -> str:
    """Return the name of an evaluation for people: card, recipe and target."""
    configuration = evaluation.configuration
    target = configuration.target
    threads = plural(target.threads, "thread")
    place = threads if target.device == HOST else f"{target.device} ({target.accelerator}, {threads})"
    return f"{configuration.card} {configuration.variant_name} on {place}"


def show_latency(quantity: Quantity | None) -> str:
    """Format a latency; one that was not measured is marked and has its interval: ``predicted 11.8 ms [10.2-13.9]``."""
    if quantity is None or quantity.provenance not in (Provenance.PREDICTED, Provenance.PUBLISHED):
        return show_ms(quantity.value if quantity else float("inf"))
    return f"{quantity.provenance} {show_ms_interval(quantity.value, quantity.low, quantity.high)}"


def show_figure(figure: str, value: float) -> str:
    """Format a value of a figure (``latency``, ``latency_p90``, ``size``, ``memory``, ``drop``, ...) with its unit."""
    if figure.startswith("latency"):
        return show_ms(value)
    if figure in ("size", "memory"):
        return show_bytes(value)
    return f"{value:.1f} points" if figure == "drop" else f"{value:.1f} %"


def describe(evaluation: Evaluation) -> str:
    """Return the name of an evaluation with its figures; a finalist has its accuracy on the hold-out too."""
    top1 = f"{accuracy_of(evaluation):.1f} %"
    if evaluation.holdout_accuracy is not None:
        top1 = f"{top1} on validation, {evaluation.holdout_accuracy.value:.1f} % on the hold-out"
    latency, size = show_latency(evaluation.latency), show_bytes(size_of(evaluation))
    return f"{name(evaluation)} ({top1}, {latency}, {size})"
