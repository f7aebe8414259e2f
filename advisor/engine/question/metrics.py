"""The metric that counts, the costs of answers and the least values of metrics, as a user writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from advisor.core import units
from advisor.core.costs import Costs, parse_costs
from advisor.core.errors import UsageError
from advisor.core.metrics import COST_SAVED, METRICS, TOP1
from advisor.core.names import require_known
from advisor.core.tasks import IMAGE_CLASSIFICATION
from advisor.engine.question.options import Options
from advisor.engine.question.values import Question
from advisor.store.yamlfile import read_text

COSTS_BYTES = 2**20
"""Largest table of costs, which the request keeps."""

FLOORS = "--min-accuracy"


def with_metric(written: Options) -> Options:
    """Return the options with the content of the table of costs in place of its path, and with the metric that it asks.

    So a run keeps its costs, and a resumed run notices other ones.

    Raises:
        UsageError: the table cannot be read or is wrong.
    """
    if not written["costs"]:
        return written
    metric = {"costs": costs_of(written["costs"]).text, "metric": written["metric"] or COST_SAVED}
    return replace(written, values={**written.values, **metric})


def costs_of(text: str) -> Costs:
    """Return the costs of a file, or of its content.

    Args:
        text: path of a CSV file, or CSV with at least two lines.

    Raises:
        UsageError: the file cannot be read, or the table is wrong.
    """
    if "\n" in text:
        return parse_costs(text)
    try:
        return parse_costs(read_text(Path(text), COSTS_BYTES), text)
    except UsageError as error:
        message = error.message
        raise UsageError(message if message.startswith("--costs") else f"--costs: {message}", error.hint) from None


def metric_of(written: Options) -> str:
    """Return the name of the metric that counts.

    Raises:
        UsageError: an unknown name, or a metric of costs without costs.
    """
    if not written["metric"]:
        return TOP1
    name = require_known("--metric", written["metric"], tuple(METRICS))
    _require_costs("--metric", name, written)
    return name


def floors_of(written: Options, metric: str) -> tuple[float | None, tuple[tuple[str, float], ...]]:
    """Return the least accuracy in %, None for none, and the least values of other metrics.

    Args:
        written: with ``85%`` for the metric that counts, ``worst-group=70%`` for another one, or both with commas.
        metric: the one that counts.

    Raises:
        UsageError: an unknown metric, one that is limited twice, or a value that is no share.
    """
    found: dict[str, float] = {}
    asked = ",".join(written["min_accuracy"])
    for part in filter(None, map(str.strip, asked.split(","))):
        named, _, text = part.rpartition("=")
        name = require_known(FLOORS, named.strip(), tuple(METRICS)) if "=" in part else metric
        if name in found:
            raise UsageError(f"{FLOORS}: '{asked}' has two limits of {name}", f"keep one: {FLOORS} {name}=85%")
        _require_costs(FLOORS, name, written)
        found[name] = units.percent(text.strip(), FLOORS)
    return found.pop(metric, None), tuple(sorted(found.items()))


def _require_costs(option: str, name: str, written: Options) -> None:
    if name == COST_SAVED and not written["costs"]:
        raise UsageError(f"{option}: {COST_SAVED} needs the cost of each answer", "add --costs costs.csv")


def validate_metric(question: Question, written: Options) -> None:
    """Refuse a metric, costs or limits of metrics that the question cannot have.

    Raises:
        UsageError: the wrong option, and what to do about it.
    """
    given = {"--costs": written["costs"], "--metric": written["metric"], FLOORS: question.limits.min_metrics}
    named = next((option for option, value in given.items() if value), "")
    if not named:
        return
    if named == FLOORS:
        named = f"{FLOORS} {question.limits.min_metrics[0][0]}=..."
    if question.task != IMAGE_CLASSIFICATION:
        raise UsageError(
            f"{named}: models for --task {question.task} are judged by {question.of_task.metric}, and only classifiers "
            "by other metrics",
            f"leave {named.partition(' ')[0]} out",
        )
    if question.data is None:
        raise UsageError(
            f"{named}: this metric is measured on images, and --data is not given",
            f"add --data DIR (one sub-folder for each class), or leave {named.partition(' ')[0]} out",
        )
    if question.robust and question.metric != TOP1:
        raise UsageError(
            f"--objective robust-accuracy is top-1 under capture conditions, and {named} asks for {question.metric}",
            "leave --objective out, or add --metric top1; other metrics can be limits: --min-accuracy macro-f1=80%",
        )
